//! What does a goroutine cost in a tree that nobody can foresee the shape of?

use crate::catalogue::{Case, Contender, Size, Workload};
use crate::cell::{Cell, Sample};
use crate::hosts::{Job, coroutines, goroutines, pooled, tasks};
use std::future::Future;
use std::pin::Pin;

pub(super) const WORKLOAD: Workload = Workload {
    name: "nqueens",
    question: "What does a goroutine cost in a tree that nobody can foresee the shape of?",
    work: "All ways to place 10 queens on a board of 10 x 10 so that none attacks another. Each goroutine has a board on which \
           some rows are taken, spawns one goroutine for each place in the next row that is not attacked, and adds up what they \
           return. One board is 35,538 goroutines, is done 16 times (by may once), and has 724 solutions, which are counted \
           and checked. One operation is one goroutine.",
    is_not: "a fast way to solve the problem.",
    cases,
    contenders: &[
        Contender::alone("urgo", urgo),
        Contender::GO,
        Contender::alone("tokio", tokio_tasks).of_crate("tokio"),
        Contender::alone("may", may_coroutines)
            .of_crate("may")
            .fewer(16),
        Contender::alone("rayon", rayon_tasks).of_crate("rayon"),
    ],
    client: None,
};

fn cases(size: Size) -> Vec<Case> {
    let (n, times) = (size.of(10, 6), size.of(16, 1));
    let case = |name, workers| Case::new(name, workers, times * queens(n)).param("n", n);
    vec![case("1 worker", 1), case("2 workers", 2)]
}

/// A board whose first rows are taken. Bits are columns.
#[derive(Clone, Copy)]
struct Board {
    all: u32,
    columns: u32,
    /// Columns of the next row that are attacked along the diagonals.
    falling: u32,
    rising: u32,
}

impl Board {
    fn empty(n: usize) -> Board {
        Board {
            all: (1 << n) - 1,
            columns: 0,
            falling: 0,
            rising: 0,
        }
    }

    fn is_full(self) -> bool {
        self.columns == self.all
    }

    /// The boards with one queen more, in the next row.
    fn next(self) -> impl Iterator<Item = Board> {
        let mut free = self.all & !(self.columns | self.falling | self.rising);
        std::iter::from_fn(move || {
            let queen = free & free.wrapping_neg();
            free ^= queen;
            (queen != 0).then_some(Board {
                all: self.all,
                columns: self.columns | queen,
                falling: (self.falling | queen) << 1,
                rising: (self.rising | queen) >> 1,
            })
        })
    }
}

/// Queens that are placed on the way to all solutions.
fn queens(n: usize) -> usize {
    fn below(board: Board) -> usize {
        board.next().map(|next| 1 + below(next)).sum()
    }
    below(Board::empty(n))
}

fn solutions(n: usize) -> u64 {
    fn below(board: Board) -> u64 {
        if board.is_full() {
            return 1;
        }
        board.next().map(below).sum()
    }
    below(Board::empty(n))
}

/// What all contenders need to know of the case.
#[derive(Clone, Copy)]
struct Puzzle {
    n: usize,
    queens: usize,
    solutions: u64,
}

impl Puzzle {
    fn of(cell: &Cell) -> Puzzle {
        let n = cell.get("n");
        Puzzle {
            n,
            queens: queens(n),
            solutions: solutions(n),
        }
    }

    /// How often the board is done for `ops` queens.
    fn times(self, ops: usize) -> u64 {
        (ops / self.queens).max(1) as u64
    }

    fn sum(self, ops: usize) -> u64 {
        self.times(ops) * self.solutions
    }

    fn repeat(self, ops: usize, solve: impl Fn(Board) -> u64) -> u64 {
        (0..self.times(ops))
            .map(|_| solve(Board::empty(self.n)))
            .sum()
    }
}

fn urgo(cell: &Cell) -> Sample {
    fn solve(board: Board) -> u64 {
        if board.is_full() {
            return 1;
        }
        let children: Vec<_> = board
            .next()
            .map(|next| urgo::spawn(move || solve(next)))
            .collect();
        let found = children.into_iter().map(|child| child.join());
        found.map(|found| found.expect("no panic")).sum()
    }
    let puzzle = Puzzle::of(cell);
    goroutines(
        cell,
        |ops| puzzle.sum(ops),
        |ops| vec![Job::new(None, move || puzzle.repeat(ops, solve))],
    )
}

fn tokio_tasks(cell: &Cell) -> Sample {
    /// A future that contains itself has to be boxed.
    fn solve(board: Board) -> Pin<Box<dyn Future<Output = u64> + Send>> {
        Box::pin(async move {
            if board.is_full() {
                return 1;
            }
            let children: Vec<_> = board.next().map(|next| tokio::spawn(solve(next))).collect();
            let mut sum = 0;
            for child in children {
                sum += child.await.expect("no panic");
            }
            sum
        })
    }
    let puzzle = Puzzle::of(cell);
    tasks(
        cell,
        |ops| puzzle.sum(ops),
        |ops| async move {
            let mut sum = 0;
            for _ in 0..puzzle.times(ops) {
                sum += solve(Board::empty(puzzle.n)).await;
            }
            sum
        },
    )
}

fn may_coroutines(cell: &Cell) -> Sample {
    fn solve(board: Board) -> u64 {
        if board.is_full() {
            return 1;
        }
        let children: Vec<_> = board
            .next()
            .map(|next| may::go!(move || solve(next)))
            .collect();
        let found = children.into_iter().map(|child| child.join());
        found.map(|found| found.expect("no panic")).sum()
    }
    let puzzle = Puzzle::of(cell);
    coroutines(
        cell,
        |ops| puzzle.sum(ops),
        |ops| vec![Job::new(None, move || puzzle.repeat(ops, solve))],
    )
}

fn rayon_tasks(cell: &Cell) -> Sample {
    fn solve(board: Board) -> u64 {
        if board.is_full() {
            return 1;
        }
        let mut boards: Vec<_> = board.next().map(|next| (next, 0)).collect();
        rayon::scope(|scope| {
            for (board, found) in &mut boards {
                scope.spawn(move |_| *found = solve(*board));
            }
        });
        boards.iter().map(|(_, found)| found).sum()
    }
    let puzzle = Puzzle::of(cell);
    pooled(cell, |ops| puzzle.sum(ops), |ops| puzzle.repeat(ops, solve))
}
