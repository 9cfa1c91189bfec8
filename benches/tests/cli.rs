//! What the program promises to who calls it. None of these tests looks at a time, and none needs Go or root: where Go is the
//! question, a script stands in for it.

use serde_json::Value;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Nothing here takes long; a test that waits longer has failed.
const PATIENCE: Duration = Duration::from_secs(120);
/// Light, and measured by urgo and by one rival in this program.
const WORKLOAD: &str = "switch";
const CONTENDERS: &str = "urgo,corosensei";

/// A directory for the files of one test.
struct Room {
    path: PathBuf,
}

impl Room {
    fn new(name: &str) -> Room {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Room { path }
    }

    fn file(&self, name: &str) -> String {
        self.path.join(name).to_str().unwrap().to_owned()
    }
}

fn program(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_urgo-bench"));
    command.args(arguments);
    command
}

fn output(arguments: &[&str]) -> Output {
    program(arguments).output().unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn quick(json: &str, html: &str) -> Output {
    let run = ["run", WORKLOAD, "--quick", "--only", CONTENDERS];
    output(&[&run[..], &["--json", json, "--html", html]].concat())
}

fn lines(file: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(file).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
fn list_names_every_workload_and_tells_all_about_one() {
    let all = output(&["list"]);
    assert!(all.status.success());
    let all = stdout(&all);
    let names: Vec<&str> = all
        .lines()
        .filter(|line| line.contains(" with a budget)"))
        .map(|line| line.split_whitespace().next().unwrap())
        .collect();
    // Each file of a workload is in the list: nobody has forgotten to enter one.
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/workloads/mod.rs");
    let sources = std::fs::read_to_string(sources).unwrap();
    let entries = sources.matches("::WORKLOAD").count();
    assert_eq!(names.len(), entries, "{all}");
    for name in names {
        let one = output(&["list", name]);
        let text = stdout(&one);
        assert!(one.status.success() && text.starts_with(name), "{text}");
        assert!(text.contains("Contenders: urgo, "), "{text}");
    }
}

#[test]
fn a_run_writes_lines_with_all_that_a_number_needs_and_a_report() {
    let room = Room::new("run");
    let (json, html) = (room.file("a.json"), room.file("a.html"));
    let run = quick(&json, &html);
    assert!(run.status.success(), "{}", stderr(&run));
    assert!(stdout(&run).contains("== switch: "), "{}", stdout(&run));
    assert!(stdout(&run).contains("mean nothing"), "{}", stdout(&run));
    let said = stderr(&run);
    assert!(said.contains("] switch, "), "a line for each case: {said}");
    assert!(said.contains(&json) && said.contains(&html), "{said}");

    let lines = lines(&json);
    for contender in CONTENDERS.split(',') {
        assert!(lines.iter().any(|line| line["contender"] == contender));
    }
    for line in &lines {
        for text in [
            "workload",
            "case",
            "contender",
            "checksum",
            "cpu",
            "kernel",
            "governor",
            "commit",
            "rustc",
            "load",
        ] {
            assert!(
                line[text].as_str().is_some_and(|text| !text.is_empty()),
                "{text}: {line}"
            );
        }
        for text in ["profile", "opt_level", "lto", "codegen_units"] {
            let value = line["build"][text].as_str();
            assert!(value.is_some_and(|text| !text.is_empty()), "{text}: {line}");
        }
        let has_version = !line["version"].as_str().unwrap().is_empty();
        assert_eq!(has_version, line["contender"] != "urgo", "{line}");
        assert!(line["ops"].as_u64().unwrap() > 0 && line["started"].as_u64().unwrap() > 0);
        assert!(!line["cpus"].as_array().unwrap().is_empty());
        assert_eq!(line["is_quick"], true);
        let metric = line["judge"]["metric"].as_str().unwrap();
        assert_eq!(
            line["metrics"][metric].as_array().unwrap().len(),
            1,
            "{line}"
        );
        assert!(line.get("error").is_none(), "{line}");
    }

    let page = std::fs::read_to_string(&html).unwrap();
    assert!(page.contains("id=\"w-switch\"") && page.contains("<svg"));
    assert!(
        page.contains("the numbers mean nothing"),
        "--quick is said aloud"
    );
    for outside in ["http-equiv", "<script", "<link", "<img", "@import", "url("] {
        assert!(
            !page.contains(outside),
            "the page asks for nothing: {outside}"
        );
    }
}

#[test]
fn two_files_are_compared_and_drawn() {
    let room = Room::new("compare");
    let [a, b, html] = ["a.json", "b.json", "c.html"].map(|name| room.file(name));
    let report = room.file("d.html");
    for json in [&a, &b] {
        let run = quick(json, &html);
        assert!(run.status.success(), "{}", stderr(&run));
    }
    let ours = output(&["compare", &a, &b]);
    assert!(ours.status.success(), "{}", stderr(&ours));
    assert!(stderr(&ours).contains("--quick"), "{}", stderr(&ours));
    let text = stdout(&ours);
    assert!(
        text.contains("urgo") && !text.contains("corosensei"),
        "{text}"
    );
    let all = stdout(&output(&["compare", &a, &b, "--all"]));
    assert!(all.contains("urgo") && all.contains("corosensei"), "{all}");
    let only = stdout(&output(&["compare", &a, &b, "--only", "corosensei"]));
    assert!(
        !only.contains("urgo ") && only.contains("corosensei"),
        "{only}"
    );

    // So is a parameter that is another one, and then there is no verdict.
    let text = std::fs::read_to_string(&b).unwrap();
    let other = text.replace("\"ops\":\"1000\"", "\"ops\":\"1001\"");
    assert_ne!(text, other);
    let changed = room.file("changed.json");
    std::fs::write(&changed, other).unwrap();
    let compared = output(&["compare", &a, &changed]);
    let said = stdout(&compared);
    assert!(compared.status.success(), "{}", stderr(&compared));
    assert!(said.contains("ops: 1000 and 1001"), "{said}");
    assert!(said.contains("0 compared"), "{said}");

    // What only one side has is said.
    let text = std::fs::read_to_string(&b).unwrap();
    std::fs::write(&b, text.lines().next().unwrap()).unwrap();
    let half = stdout(&output(&["compare", &a, &b, "--all"]));
    assert!(
        half.contains("only in") && half.contains("a.json"),
        "{half}"
    );

    let notes = room.file("notes.md");
    std::fs::write(&notes, "On top.\n\n## switch\n\nBeside *switch*.\n").unwrap();
    let drawn = output(&["report", &a, "--html", &report, "--notes", &notes]);
    assert!(drawn.status.success(), "{}", stderr(&drawn));
    let page = std::fs::read_to_string(&report).unwrap();
    assert!(page.contains("<p>On top.</p>") && page.contains("<em>switch</em>"));
}

#[test]
fn what_makes_no_sense_is_refused_before_anything_runs() {
    let room = Room::new("refused");
    let nonsense = room.file("nonsense.json");
    std::fs::write(&nonsense, "not a result\n").unwrap();
    let report = room.file("r.html");
    let no_directory = room.file("there/is/none.html");
    for (arguments, answer) in [
        (&["run", "swich"][..], "did you mean \"switch\""),
        (&["list", "ehco"], "did you mean \"echo\""),
        (
            &["run", "switch", "--only", "corosenei"],
            "did you mean \"corosensei\"",
        ),
        (&["run", "switch", "--cpus", "99999"], "CPU 99999"),
        (&["run", "switch", "--case", "no such case"], "no such case"),
        (
            &["run", "switch", "--html", &no_directory],
            "cannot be written",
        ),
        (
            &["run", "switch", "--rate", "1000"],
            "no case of what is to be run has a rate",
        ),
        (&["run", "latency", "--rate", "0"], "--rate 0"),
        (&["compare", &nonsense, &nonsense], "no line of results"),
        (
            &["report", &nonsense, "--html", &report],
            "no line of results",
        ),
    ] {
        let refused = output(arguments);
        let said = stderr(&refused);
        assert_eq!(refused.status.code(), Some(2), "{arguments:?}: {said}");
        assert!(said.contains(answer), "{arguments:?}: {said}");
        assert!(stdout(&refused).is_empty(), "{arguments:?}");
    }
}

/// A run that is killed if the test fails.
struct Running {
    child: Child,
}

impl Drop for Running {
    fn drop(&mut self) {
        // It has ended already if the test succeeds.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < deadline, "never: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn the_first_interrupt_ends_the_run_and_keeps_what_was_measured() {
    let room = Room::new("interrupt");
    let (json, html) = (room.file("a.json"), room.file("a.html"));
    // More rounds than anybody waits for: only the signal ends it. When the third cell is
    // seen, the first one has given its values.
    let mut command = program(&["run", WORKLOAD, "--quick", "--only", CONTENDERS]);
    command.args(["--rounds", "1000000", "--json", &json, "--html", &html]);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut running = Running {
        child: command.spawn().unwrap(),
    };
    let pid = running.child.id();
    let mut cells = std::collections::BTreeSet::new();
    until("three cells have started", || {
        cells.extend(children(pid));
        cells.len() >= 3
    });
    let killed = Command::new("kill")
        .args(["-INT", &pid.to_string()])
        .status();
    assert!(killed.unwrap().success());
    let mut status = None;
    until("the run ends", || {
        status = running.child.try_wait().unwrap();
        status.is_some()
    });
    assert_eq!(status.unwrap().code(), Some(130));
    let lines = lines(&json);
    assert!(!lines.is_empty());
    for line in &lines {
        assert!(line.get("error").is_none(), "{line}");
        let metric = line["judge"]["metric"].as_str().unwrap();
        assert!(
            !line["metrics"][metric].as_array().unwrap().is_empty(),
            "{line}"
        );
    }
    let page = std::fs::read_to_string(&html).unwrap();
    assert!(page.contains("<svg") && page.ends_with("</html>\n"));
}

#[test]
fn a_cell_does_not_outlive_a_run_that_is_killed() {
    let mut command = program(&["run", WORKLOAD, "--only", "urgo", "--rounds", "1000000"]);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut running = Running {
        child: command.spawn().unwrap(),
    };
    let pid = running.child.id();
    let mut cells = Vec::new();
    until("a cell has started", || {
        cells = children(pid);
        !cells.is_empty()
    });
    running.child.kill().unwrap();
    running.child.wait().unwrap();
    until("its cell ends", || {
        cells.iter().all(|cell| has_ended(*cell))
    });
}

/// Whether there is no such process, or only what is left of it until somebody waits for it.
fn has_ended(pid: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"));
    status.map_or(true, |text| {
        text.lines()
            .any(|line| line.starts_with("State:") && line.contains('Z'))
    })
}

/// What `run WORKLOAD --quick` makes of a Go program that is this script, with the number of operations in `$ops`.
fn run_with_go(name: &str, workload: &str, script: &str) -> (Output, Vec<Value>) {
    let room = Room::new(name);
    let (go, json) = (room.file("go"), room.file("a.json"));
    // It is asked for its version and then to build, `-o` with the path of the program.
    let text = format!(
        "#!/bin/sh
if [ \"$1\" = env ]; then echo go1.24; exit; fi
cat >\"$3\" <<'END'
#!/bin/sh
for word; do case $word in ops=*) ops=${{word#ops=}};; esac; done
{script}
END
chmod +x \"$3\"
"
    );
    std::fs::write(&go, text).unwrap();
    let executable = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(&go, executable).unwrap();
    // The Go program lies beside this one: the real one is left alone.
    let bench = room.file("urgo-bench");
    std::fs::hard_link(env!("CARGO_BIN_EXE_urgo-bench"), &bench).unwrap();
    let mut command = Command::new(bench);
    command.args([
        "run", workload, "--quick", "--only", "urgo,go", "--json", &json,
    ]);
    let output = command.env("GO", go).output().unwrap();
    (output, lines(&json))
}

#[test]
fn a_rival_that_answers_as_it_should_is_accepted() {
    // The sum that every contender has is the number of its operations.
    let script =
        r#"printf '{"ops":%d,"checksum":"%016x","metrics":{"cpu_ns":1,"wall_ns":1}}' $ops $ops"#;
    let (run, lines) = run_with_go("good_go", "yield_now", script);
    assert_eq!(run.status.code(), Some(0), "{}", stderr(&run));
    assert!(lines.iter().any(|line| line["contender"] == "go"));
    assert!(lines.iter().all(|line| line.get("error").is_none()));
}

#[test]
fn a_broken_rival_fails_its_cells_and_the_run() {
    let no_latencies =
        r#"printf '{"ops":%d,"checksum":"%016x","metrics":{},"latencies":"AAAA"}' $ops $ops"#;
    for (name, script, why) in [
        ("garbage_go", "echo garbage", "garbage"),
        ("failing_go", "echo planted >&2; exit 1", "planted"),
        ("no_latencies_go", no_latencies, "latencies that are none"),
    ] {
        let (run, lines) = run_with_go(name, "yield_now", script);
        let said = stderr(&run);
        assert_eq!(run.status.code(), Some(1), "{name}: {said}");
        assert!(said.contains("FAILED") && said.contains(why), "{said}");
        assert!(lines.iter().any(|line| line["contender"] == "go"));
        for line in &lines {
            let error = line.get("error").and_then(Value::as_str).unwrap_or("");
            let is_go = line["contender"] == "go";
            assert_eq!(error.contains(why), is_go, "{name}: {line}");
        }
    }
}

#[test]
fn a_rival_that_computes_something_else_fails_the_run() {
    let script = r#"printf '{"ops":%d,"checksum":"beef","metrics":{"cpu_ns":1,"wall_ns":1}}' $ops"#;
    // A workload in which Go does as many operations as the others.
    let (run, _) = run_with_go("wrong_go", "skynet", script);
    let said = stderr(&run);
    assert_eq!(run.status.code(), Some(1), "{said}");
    assert!(
        said.contains("results differ") && said.contains("go beef"),
        "{said}"
    );
}

/// Processes whose parent is `pid`.
fn children(pid: u32) -> Vec<u32> {
    let path = format!("/proc/{pid}/task/{pid}/children");
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.split_whitespace()
        .map(|child| child.parse().unwrap())
        .collect()
}
