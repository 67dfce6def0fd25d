//! Storage on disk: what was acknowledged is there after anything.

use super::*;
use crate::{Error, Storage};
use futures_util::future::join_all;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A directory that goes away with the test.
pub(super) struct Dir(pub(super) PathBuf);

impl Dir {
    pub(super) fn new(name: &str) -> Dir {
        let path = std::env::temp_dir().join(format!("steersman-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Dir(path)
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

pub(super) fn open(dir: &Path) -> Result<Server, Error> {
    let clock = Clock::fixed(api::Time::from_unix(1_700_000_000));
    let storage = Storage::Dir(dir.to_owned());
    let options = Options {
        storage,
        ..Options::in_memory(clock, Rng::from_seed(1))
    };
    Ok(Server {
        server: ApiServer::open(options)?,
    })
}

#[tokio::test]
async fn everything_is_there_after_a_restart() {
    let dir = Dir::new("restart");
    let server = open(&dir.0).unwrap();
    let created = server.config_map("a", json!({"k": "v"})).await;
    server.config_map("b", json!({})).await;
    server.delete(&format!("{CONFIG_MAPS}/b")).await;
    let (_, before) = server.get("/api/v1/namespaces").await;
    drop(server);
    let server = open(&dir.0).unwrap();
    assert_eq!(
        server.get(&format!("{CONFIG_MAPS}/a")).await,
        (200, created.clone())
    );
    assert_eq!(server.get(&format!("{CONFIG_MAPS}/b")).await.0, 404);
    let (_, after) = server.get("/api/v1/namespaces").await;
    assert_eq!(
        after["items"], before["items"],
        "boot objects are made once"
    );
    let next = server.config_map("c", json!({})).await;
    assert!(revision(&next) > revision(&created) + 2, "revisions go on");
    let (_, selected) = server
        .get(&format!("{CONFIG_MAPS}?labelSelector=app%3Da"))
        .await;
    assert_eq!(names(&selected), ["a"]);
    let old = server
        .get(&format!("{CONFIG_MAPS}?watch=1&resourceVersion=1"))
        .await;
    assert_eq!(
        old.1["object"]["code"], 410,
        "what happened before is not in the log"
    );
}

#[tokio::test]
async fn foreign_damaged_and_busy_directories_are_refused_and_left_alone() {
    let dir = Dir::new("foreign");
    std::fs::write(dir.0.join("precious.txt"), "mine").unwrap();
    let error = |result: Result<Server, Error>| result.err().unwrap().to_string();
    assert!(error(open(&dir.0)).contains("precious.txt"));
    std::fs::remove_file(dir.0.join("precious.txt")).unwrap();
    let file = dir.0.join("steersman.redb");
    std::fs::write(&file, "not a database").unwrap();
    assert!(error(open(&dir.0)).contains("damaged or not ours"));
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "not a database");
    std::fs::remove_file(&file).unwrap();
    let server = open(&dir.0).unwrap();
    assert!(error(open(&dir.0)).contains("in use"));
    drop(server);

    set_format(&file, 99);
    let refused = error(open(&dir.0));
    assert!(refused.contains("written by another version"), "{refused}");
}

fn set_format(file: &Path, format: u64) {
    let database = redb::Database::open(file).unwrap();
    let transaction = database.begin_write().unwrap();
    let state: redb::TableDefinition<'_, &str, (u64, u32)> = redb::TableDefinition::new("state");
    let mut table = transaction.open_table(state).unwrap();
    let sum = crc32fast::hash(&[b"format".as_slice(), &format.to_le_bytes()].concat());
    table.insert("format", (format, sum)).unwrap();
    drop(table);
    transaction.commit().unwrap();
}

#[tokio::test]
async fn an_earlier_layout_is_refused_with_what_to_do() {
    let dir = Dir::new("earlier");
    let file = dir.0.join("steersman.redb");
    let database = redb::Database::create(&file).unwrap();
    let transaction = database.begin_write().unwrap();
    let meta: redb::TableDefinition<'_, &str, u64> = redb::TableDefinition::new("meta");
    transaction
        .open_table(meta)
        .unwrap()
        .insert("format", 2)
        .unwrap();
    transaction.commit().unwrap();
    drop(database);
    std::fs::write(dir.0.join("steersman.journal"), "steersman journal 1\n").unwrap();
    let refused = open(&dir.0).err().unwrap().to_string();
    assert!(
        refused.contains("written by an earlier version"),
        "{refused}"
    );
    assert!(refused.contains("choose an empty directory"), "{refused}");
    assert!(redb::Database::open(&file).is_ok(), "it is left alone");
}

/// How the parent tells the child where to write.
const CHILD: &str = "STEERSMAN_TEST_KILL_DIR";

/// Not a test of its own: what the test below kills. It acknowledges each write on its standard output.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn child_that_writes() {
    let Ok(dir) = std::env::var(CHILD) else {
        return;
    };
    let server = open(Path::new(&dir)).unwrap();
    let run = std::env::var("STEERSMAN_TEST_KILL_RUN").unwrap();
    let writers = (0..8).map(|writer| {
        let (server, run) = (&server, &run);
        async move {
            for number in 0_u64.. {
                let created = server
                    .config_map(&format!("r{run}-w{writer}-{number}"), json!({"n": "1"}))
                    .await;
                let line = format!(
                    "ACK {} {}\n",
                    created["metadata"]["name"].as_str().unwrap(),
                    revision(&created)
                );
                std::io::stdout().write_all(line.as_bytes()).unwrap();
            }
        }
    });
    join_all(writers).await;
}

#[tokio::test]
async fn acknowledged_writes_survive_kill() {
    let dir = Dir::new("kill");
    let mut acknowledged: Vec<(String, u64)> = Vec::new();
    for run in 0..4 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "tests::durable::child_that_writes",
                "--nocapture",
                "--test-threads=1",
            ])
            .env(CHILD, &dir.0)
            .env("STEERSMAN_TEST_KILL_RUN", run.to_string())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap())
            .lines()
            .map_while(Result::ok);
        for line in lines {
            let Some((_, text)) = line.split_once("ACK ") else {
                continue;
            };
            // A line that the kill cut short acknowledges nothing.
            let Some((name, revision)) = text
                .split_once(' ')
                .and_then(|(n, r)| Some((n, r.parse().ok()?)))
            else {
                continue;
            };
            acknowledged.push((name.to_owned(), revision));
            if acknowledged.len() == (run + 1) * 40 {
                child.kill().unwrap();
            }
        }
        child.wait().unwrap();
        let server = open(&dir.0).unwrap();
        for (name, written) in &acknowledged {
            let (code, value) = server.get(&format!("{CONFIG_MAPS}/{name}")).await;
            assert_eq!((code, revision(&value)), (200, *written), "{name}");
        }
    }
    assert!(acknowledged.len() >= 160);
}

#[tokio::test]
async fn the_record_of_cluster_addresses_is_repaired_at_the_start() {
    let dir = Dir::new("addresses");
    let server = open(&dir.0).unwrap();
    const SERVICES: &str = "/api/v1/namespaces/default/services";
    const ADDRESSES: &str = "/apis/networking.k8s.io/v1/ipaddresses";
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"},
        "spec": {"clusterIP": "10.0.0.77", "ports": [{"port": 80}]}});
    assert_eq!(server.post(SERVICES, service).await.0, 201);
    let leaked = json!({"apiVersion": "networking.k8s.io/v1", "kind": "IPAddress", "metadata": {"name": "10.0.0.78",
        "labels": {"ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io", "ipaddress.kubernetes.io/ip-family": "IPv4"}},
        "spec": {"parentRef": {"resource": "services", "namespace": "default", "name": "gone"}}});
    let mut foreign = leaked.clone();
    foreign["metadata"] = json!({"name": "10.0.0.79"});
    for address in [leaked, foreign] {
        assert_eq!(server.post(ADDRESSES, address).await.0, 201);
    }
    server.delete(&format!("{ADDRESSES}/10.0.0.77")).await;
    drop(server);
    let server = open(&dir.0).unwrap();
    let (_, marker) = server.get(&format!("{ADDRESSES}/10.0.0.77")).await;
    assert_eq!(marker["spec"]["parentRef"]["name"], "web");
    assert_eq!(
        server.get(&format!("{ADDRESSES}/10.0.0.78")).await.0,
        404,
        "nobody has it"
    );
    assert_eq!(
        server.get(&format!("{ADDRESSES}/10.0.0.79")).await.0,
        200,
        "not the server's"
    );
}
