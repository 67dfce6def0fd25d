//! What our API server has acknowledged is there after any crash, a full disk stops writes and nothing
//! else, and data that it does not know is left alone.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use real_tests::embedded::Embedded;
use real_tests::installation;
use real_tests::{Api, process};
use serde_json::{Value, json};

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
/// Kills at different moments after the start of the load.
const KILLED_AFTER_MS: [u64; 6] = [30, 70, 120, 200, 330, 500];
const WRITERS: usize = 4;

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let name = format!("steersman-durability-{name}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).expect("a folder for temporary files");
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn built() -> bool {
    match installation::steersman_binary() {
        Ok(_) => true,
        Err(error) => {
            installation::say(&format!("skipped: {error:#}"));
            false
        }
    }
}

/// Creates and updates objects until told to stop or the server is gone; returns the last value of each
/// that was acknowledged.
fn write(api: &Api, writer: usize, round: usize, stopping: &AtomicBool) -> BTreeMap<String, u64> {
    let mut acknowledged = BTreeMap::new();
    for number in 0.. {
        let name = format!("w{writer}-{round}-{}", number / 3);
        let object = json!({"metadata": {"name": name}, "data": {"value": number.to_string()}});
        let path = format!("{CONFIG_MAPS}/{name}");
        let body = object.to_string();
        let answer = match number % 3 {
            0 => api.send("POST", CONFIG_MAPS, "application/json", body.as_bytes()),
            _ => api.send("PUT", &path, "application/json", body.as_bytes()),
        };
        match answer {
            Ok(answer) if answer.status < 300 => {
                acknowledged.insert(name, number);
            }
            _ => break,
        }
        if stopping.load(Ordering::Relaxed) {
            break;
        }
    }
    acknowledged
}

fn stored(api: &Api) -> BTreeMap<String, u64> {
    let value = |object: &Value| object["data"]["value"].as_str()?.parse().ok();
    let items = api.list(CONFIG_MAPS).expect("a list");
    let named = items
        .iter()
        .filter_map(|item| Some((item["metadata"]["name"].as_str()?.to_owned(), value(item)?)));
    named.collect()
}

#[test]
fn what_was_acknowledged_survives_kills_at_any_moment() {
    if !built() {
        return;
    }
    let folder = Folder::new("kill");
    let mut expected: BTreeMap<String, u64> = BTreeMap::new();
    let mut last_revision = 0;
    for (round, moment) in KILLED_AFTER_MS.iter().enumerate() {
        let embedded = Embedded::start(&folder.0).unwrap();
        let api = &embedded.api;
        let there = stored(api);
        for (name, value) in &expected {
            let found = there.get(name);
            // A write that was on its way when the server died may have made it.
            assert!(
                found.is_some_and(|found| found >= value),
                "{name}: {found:?} instead of {value}"
            );
        }
        let list = api.get(CONFIG_MAPS).unwrap();
        let revision: u64 = list["metadata"]["resourceVersion"]
            .as_str()
            .unwrap()
            .parse()
            .unwrap();
        assert!(
            revision >= last_revision,
            "the revision went back: {revision} < {last_revision}"
        );
        last_revision = revision;
        expected = there;
        let stopping = AtomicBool::new(false);
        let acknowledged = std::thread::scope(|scope| {
            let stopping = &stopping;
            let writers: Vec<_> = (0..WRITERS)
                .map(|writer| scope.spawn(move || write(api, writer, round, stopping)))
                .collect();
            process::pause(Duration::from_millis(*moment));
            embedded.process.signal("KILL").unwrap();
            stopping.store(true, Ordering::Relaxed);
            writers
                .into_iter()
                .map(|writer| writer.join().unwrap())
                .collect::<Vec<_>>()
        });
        let written: usize = acknowledged.iter().map(BTreeMap::len).sum();
        assert!(
            round < 3 || written > 0,
            "nothing was written in round {round}"
        );
        expected.extend(acknowledged.into_iter().flatten());
    }
    let embedded = Embedded::start(&folder.0).unwrap();
    let there = stored(&embedded.api);
    for (name, value) in &expected {
        assert!(
            there.get(name).is_some_and(|found| found >= value),
            "{name} of {value} is lost"
        );
    }
}

#[test]
fn a_full_disk_fails_writes_and_keeps_reads() {
    if !built() {
        return;
    }
    let folder = Folder::new("full");
    let first = Embedded::start(&folder.0).unwrap();
    first
        .api
        .create(CONFIG_MAPS, &json!({"metadata": {"name": "before"}}))
        .unwrap();
    first.process.stop().unwrap();
    let size: u64 = fs::read_dir(folder.0.join("data"))
        .unwrap()
        .filter_map(|entry| entry.ok()?.metadata().ok())
        .map(|metadata| metadata.len())
        .max()
        .unwrap_or_default();
    let embedded = Embedded::start_limited(&folder.0, size / 1024 + 256).unwrap();
    let api = &embedded.api;
    let mut acknowledged = Vec::new();
    let mut refused = None;
    for number in 0..200 {
        let name = format!("big-{number}");
        let object =
            json!({"metadata": {"name": name}, "data": {"x": "y".repeat(100_000)}}).to_string();
        let answer = api
            .send("POST", CONFIG_MAPS, "application/json", object.as_bytes())
            .unwrap();
        if answer.status >= 300 {
            refused = Some(answer);
            break;
        }
        acknowledged.push(name);
    }
    let refused = refused.expect("20 MB do not fit");
    assert!((500..600).contains(&refused.status), "{}", refused.status);
    let text = String::from_utf8_lossy(&refused.body).into_owned();
    assert!(text.contains("\"kind\":\"Status\""), "{text}");
    assert!(
        api.find(&format!("{CONFIG_MAPS}/before"))
            .unwrap()
            .is_some()
    );
    assert!(api.list(CONFIG_MAPS).unwrap().len() >= acknowledged.len());
    embedded.process.stop().unwrap();
    let again = Embedded::start(&folder.0).unwrap();
    for name in &acknowledged {
        assert!(
            again
                .api
                .find(&format!("{CONFIG_MAPS}/{name}"))
                .unwrap()
                .is_some(),
            "{name} is lost"
        );
    }
    again
        .api
        .create(CONFIG_MAPS, &json!({"metadata": {"name": "after"}}))
        .unwrap();
}

#[test]
fn a_damaged_or_foreign_data_folder_is_refused_and_left_as_it_is() {
    if !built() {
        return;
    }
    let folder = Folder::new("damage");
    Embedded::start(&folder.0).unwrap().process.stop().unwrap();
    let data = folder.0.join("data");
    let database = fs::read_dir(&data)
        .unwrap()
        .filter_map(|entry| Some(entry.ok()?.path()))
        .find(|path| path.is_file() && path.extension().is_some_and(|end| end == "redb"))
        .expect("a database in the data folder");
    let whole = fs::read(&database).unwrap();
    for damage in [
        b"nonsense".to_vec(),
        whole[..whole.len() / 2].to_vec(),
        vec![0; whole.len()],
    ] {
        fs::write(&database, &damage).unwrap();
        let failure = format!(
            "{:#}",
            Embedded::start(&folder.0).err().expect("damage is refused")
        );
        assert!(failure.contains("data"), "{failure}");
        assert_eq!(fs::read(&database).unwrap(), damage, "the file was touched");
    }
    let foreign = Folder::new("foreign");
    fs::create_dir_all(foreign.0.join("data")).unwrap();
    fs::write(foreign.0.join("data/thesis.txt"), "five years of work").unwrap();
    let failure = format!(
        "{:#}",
        Embedded::start(&foreign.0)
            .err()
            .expect("a foreign folder is refused")
    );
    assert!(failure.contains("data"), "{failure}");
    let names: Vec<_> = fs::read_dir(foreign.0.join("data"))
        .unwrap()
        .flatten()
        .map(|entry| entry.file_name())
        .collect();
    assert_eq!(names, ["thesis.txt"]);
}

#[test]
fn it_stops_in_order_when_it_is_told_to() {
    if !built() {
        return;
    }
    let folder = Folder::new("stop");
    let embedded = Embedded::start(&folder.0).unwrap();
    let usage: process::Usage = embedded.process.usage().unwrap();
    assert!(usage.resident_bytes > 0);
    let status = embedded.process.stop().unwrap();
    assert!(status.success(), "{status}");
}
