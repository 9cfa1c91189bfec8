//! How far the run is.

use indicatif::{ProgressBar, ProgressStyle};

/// On standard error: a bar if that is a terminal, else a line for each case, so that a log shows how far it is.
#[derive(Debug)]
pub(super) struct Progress {
    bar: ProgressBar,
}

impl Progress {
    pub(super) fn start(cells: usize) -> Progress {
        let bar = ProgressBar::new(cells as u64);
        let style = ProgressStyle::with_template(
            "{bar:24} {pos}/{len} cells, {elapsed} gone, {eta} left · {wide_msg}",
        );
        bar.set_style(style.expect("the template is valid"));
        Progress { bar }
    }

    /// The next case begins, the one numbered `at` of `all`.
    pub(super) fn case(&self, at: usize, all: usize, workload: &str, case: &str) {
        if self.bar.is_hidden() {
            eprintln!("[{at}/{all}] {workload}, {case}");
        }
    }

    /// The next cell begins; round 0 is the one in which system calls are counted.
    pub(super) fn step(
        &self,
        workload: &str,
        case: &str,
        contender: &str,
        round: usize,
        rounds: usize,
    ) {
        let part = match round {
            0 => "counting system calls".to_owned(),
            _ => format!("round {round} of {rounds}"),
        };
        self.bar
            .set_message(format!("{workload}, {case}: {contender}, {part}"));
        self.bar.inc(1);
    }

    /// Lets `print` write without the bar in between.
    pub(super) fn suspend(&self, print: impl FnOnce()) {
        self.bar.suspend(print);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
