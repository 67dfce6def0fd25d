//! Hundreds of watches over sockets, and one whose client never reads: nobody waits for it.

use std::sync::mpsc;
use std::time::Duration;

use real_tests::embedded::Embedded;
use real_tests::installation;
use serde_json::json;

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const WATCHERS: usize = 300;
/// Together more than what the sockets on the way of one watch can hold: 10 MB.
const WRITES: usize = 100;
const BYTES: usize = 100_000;

#[test]
fn a_watcher_that_never_reads_holds_up_neither_writers_nor_others() {
    if let Err(error) = installation::steersman_binary() {
        installation::say(&format!("skipped: {error:#}"));
        return;
    }
    let folder = std::env::temp_dir().join(format!("steersman-watchers-{}", std::process::id()));
    let embedded = Embedded::start(&folder).unwrap();
    let api = &embedded.api;
    let list = api.get(CONFIG_MAPS).unwrap();
    let revision = list["metadata"]["resourceVersion"].as_str().unwrap();
    let path = format!("{CONFIG_MAPS}?watch=true&resourceVersion={revision}");
    let quiet = Duration::from_secs(60);
    let (asleep, fell_asleep) = mpsc::channel();
    let (wake, woken) = mpsc::channel::<()>();
    let (counted, counts) = mpsc::channel();
    std::thread::scope(|scope| {
        let path = &path;
        scope.spawn(move || {
            // It takes the first event and then nothing more until all is over.
            let _ = api.watch_lines(path, quiet, |_| {
                let _ = asleep.send(());
                let _ = woken.recv();
                false
            });
        });
        for _ in 0..WATCHERS {
            let counted = counted.clone();
            scope.spawn(move || {
                let mut seen = 0;
                let path = format!("{path}&labelSelector=small");
                let watched = api.watch_lines(&path, quiet, |_| {
                    seen += 1;
                    seen <= WRITES
                });
                let _ = counted.send((seen, watched.is_ok()));
            });
        }
        // Dropped when something fails, so that the sleeper wakes then, too.
        let wake = wake;
        let write = |number: usize| {
            let large = json!({"metadata": {"name": format!("large-{number}")}, "data": {"x": "y".repeat(BYTES)}});
            api.create(CONFIG_MAPS, &large).unwrap();
            let small =
                json!({"metadata": {"name": format!("small-{number}"), "labels": {"small": ""}}});
            api.create(CONFIG_MAPS, &small).unwrap();
        };
        write(0);
        fell_asleep.recv_timeout(quiet).unwrap();
        (1..=WRITES).for_each(write);
        for _ in 0..WATCHERS {
            let outcome = counts.recv_timeout(quiet).unwrap();
            assert_eq!(outcome, (WRITES + 1, true), "events that a watcher saw");
        }
        wake.send(()).unwrap();
    });
    embedded.process.stop().unwrap();
    let _ = std::fs::remove_dir_all(&folder);
}
