//! `GET /status`: the runtime's own numbers as JSON.

use serde_json::json;

/// The JSON text. `connections` is the number of open ones.
pub(crate) fn json(connections: usize) -> Vec<u8> {
    let metrics = urgo::debug::metrics();
    let workers: Vec<_> = metrics
        .workers
        .iter()
        .map(|worker| {
            json!({
                "cpu": worker.cpu,
                "goroutines": worker.goroutines,
                "started": worker.started,
                "stolen": worker.stolen,
                "ring": {
                    "in_flight": worker.ring.in_flight,
                    "operations": worker.ring.operations,
                    "enters": worker.ring.enters,
                    "completions": worker.ring.completions,
                },
            })
        })
        .collect();
    let status = json!({
        "connections": connections,
        "goroutines": metrics.goroutines,
        "workers": workers,
    });
    let mut text = status.to_string().into_bytes();
    text.push(b'\n');
    text
}
