//! The hidden commands: a cell, and the server that a client's cell starts.

use crate::catalogue::{self, Role, Workload};
use crate::cell::Cell;
use crate::machine::peak_bytes_of;
use crate::net::Server;
use std::collections::BTreeMap;
use std::net::TcpListener;
use std::process::ExitCode;

/// `WORKLOAD CONTENDER name=value...`, as [`crate::run::say`] writes it.
fn cell_of(words: &[String]) -> Option<(&'static Workload, Cell)> {
    let [workload, contender, rest @ ..] = words else {
        return None;
    };
    let mut params: BTreeMap<String, String> = rest
        .iter()
        .filter_map(|word| word.split_once('='))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    let cpus = params.remove("cpus")?;
    let cell = Cell {
        workload: workload.clone(),
        contender: contender.clone(),
        cpus: cpus.split(',').filter_map(|cpu| cpu.parse().ok()).collect(),
        params,
    };
    Some((catalogue::find(workload)?, cell))
}

/// Measures one cell and prints its sample.
pub(super) fn run_cell(words: &[String]) -> ExitCode {
    let Some((workload, cell)) = cell_of(words) else {
        eprintln!("urgo-bench cell: this is how `run` starts itself; it is not for people");
        return ExitCode::from(2);
    };
    let contender = workload
        .contender(&cell.contender)
        .expect("a contender of the catalogue");
    let mut sample = match (contender.role, workload.client) {
        (Role::Alone(measure), _) => measure(&cell),
        (_, Some(client)) => client(&cell, &Server::start(workload, &cell)),
        (_, None) => panic!("{}: a server without a client", workload.name),
    };
    if !sample.metrics.contains_key("peak_bytes")
        && let Some(bytes) = peak_bytes_of(std::process::id())
    {
        sample.set("peak_bytes", bytes as f64);
    }
    println!(
        "{}",
        serde_json::to_string(&sample).expect("a sample is plain data")
    );
    ExitCode::SUCCESS
}

/// Connections that may wait to be accepted.
const BACKLOG: i32 = 4096;

/// Serves until it is killed.
pub(super) fn serve(words: &[String]) -> ExitCode {
    let Some((workload, cell)) = cell_of(words) else {
        eprintln!("urgo-bench serve: this is how `run` starts a server; it is not for people");
        return ExitCode::from(2);
    };
    let contender = workload
        .contender(&cell.contender)
        .expect("a contender of the catalogue");
    let Role::Serves(serve) = contender.role else {
        panic!("{} is no server", contender.name)
    };
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port of loopback");
    // As Go has it: with the 128 of std, connections are refused for a second whenever the server gets no CPU for a moment.
    let longer = socket2::SockRef::from(&listener).listen(BACKLOG);
    longer.expect("a longer queue of connections");
    println!("{}", listener.local_addr().expect("a bound socket").port());
    serve(&cell, listener);
    ExitCode::SUCCESS
}
