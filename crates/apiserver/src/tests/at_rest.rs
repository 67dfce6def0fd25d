//! Files at rest: who may read them, what is damaged, and what a first start leaves that was killed.

use super::durable::{Dir, open};
use super::*;
use crate::pki::{Pki, Validity};
use crate::repair;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

const FILE: &str = "steersman.redb";

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[tokio::test]
async fn the_database_is_its_owners_alone_in_a_folder_that_is_open_to_all() {
    let dir = Dir::new("modes");
    let open_to_all = std::fs::Permissions::from_mode(0o777);
    std::fs::set_permissions(&dir.0, open_to_all.clone()).unwrap();
    drop(open(&dir.0).unwrap());
    let file = dir.0.join(FILE);
    assert_eq!(mode(&file), 0o600);
    std::fs::set_permissions(&file, open_to_all).unwrap();
    drop(open(&dir.0).unwrap());
    assert_eq!(mode(&file), 0o600);
}

#[tokio::test]
async fn a_database_that_is_a_link_is_refused() {
    let (dir, other) = (Dir::new("link"), Dir::new("link-target"));
    drop(open(&other.0).unwrap());
    symlink(other.0.join(FILE), dir.0.join(FILE)).unwrap();
    let refused = open(&dir.0).err().unwrap().to_string();
    assert!(refused.contains("symbolic link"), "{refused}");
    std::fs::remove_file(dir.0.join(FILE)).unwrap();
    symlink("/nowhere/at/all", dir.0.join(FILE)).unwrap();
    assert!(open(&dir.0).is_err(), "nor one that leads nowhere");
}

/// A folder with config maps `a`, `b` and `c`, of which `b` is damaged.
async fn damaged(name: &str, change: impl Fn(&mut [u8])) -> Dir {
    let dir = Dir::new(name);
    let server = open(&dir.0).unwrap();
    for name in ["a", "b", "c"] {
        server
            .config_map(name, json!({"text": format!("needle {name}")}))
            .await;
    }
    drop(server);
    let file = dir.0.join(FILE);
    let mut bytes = std::fs::read(&file).unwrap();
    let needle = b"needle b";
    let places: Vec<usize> = (0..bytes.len() - needle.len())
        .filter(|place| bytes[*place..].starts_with(needle))
        .collect();
    assert!(!places.is_empty());
    for place in places {
        change(&mut bytes[place..place + needle.len()]);
    }
    std::fs::write(&file, bytes).unwrap();
    dir
}

#[tokio::test]
async fn a_damaged_object_is_named_and_repair_drops_nothing_else() {
    // Still JSON, and not even text.
    let changes: [fn(&mut [u8]); 2] = [|text| text[0] = b'N', |text| text[0] = 0xff];
    for change in changes {
        let dir = damaged("damaged", change).await;
        let refused = open(&dir.0).err().unwrap().to_string();
        assert!(refused.contains("configmaps default/b"), "{refused}");
        assert!(refused.contains("--repair"), "{refused}");
        let repaired = repair(&dir.0).unwrap();
        assert_eq!(repaired.dropped, ["configmaps default/b"]);
        assert_eq!(mode(&repaired.saved_as.unwrap()), 0o600);
        let server = open(&dir.0).unwrap();
        let codes = ["a", "b", "c"].map(|name| format!("{CONFIG_MAPS}/{name}"));
        let (_, kept) = server.get(&codes[0]).await;
        assert_eq!(kept["data"]["text"], "needle a");
        assert_eq!(server.get(&codes[1]).await.0, 404);
        assert_eq!(server.get(&codes[2]).await.0, 200);
        let next = server.config_map("d", json!({})).await;
        assert!(revision(&next) > 1_000_000, "no revision is used twice");
    }
}

#[tokio::test]
async fn a_file_that_is_cut_short_or_zeros_is_refused_and_left_alone() {
    let dir = Dir::new("cut");
    drop(open(&dir.0).unwrap());
    let file = dir.0.join(FILE);
    let whole = std::fs::read(&file).unwrap();
    let half = whole[..whole.len() / 2].to_vec();
    for damage in [Vec::new(), vec![0; whole.len()], half] {
        std::fs::write(&file, &damage).unwrap();
        assert!(open(&dir.0).is_err(), "{} bytes", damage.len());
        assert_eq!(std::fs::read(&file).unwrap(), damage);
    }
    std::fs::write(&file, whole).unwrap();
    drop(open(&dir.0).unwrap());
}

#[tokio::test]
async fn repair_of_what_is_whole_changes_nothing() {
    let dir = Dir::new("whole");
    assert!(
        repair(&dir.0).unwrap().dropped.is_empty(),
        "nothing is there"
    );
    let created = open(&dir.0).unwrap().config_map("a", json!({})).await;
    let repaired = repair(&dir.0).unwrap();
    assert!(repaired.dropped.is_empty() && repaired.saved_as.is_none());
    assert!(repaired.kept > 1);
    let found = open(&dir.0).unwrap().get(&format!("{CONFIG_MAPS}/a")).await;
    assert_eq!(found, (200, created));
}

/// All that a folder holds, or why it is refused.
fn rows(dir: &Path) -> Result<Vec<(String, u64, Vec<u8>)>, String> {
    let rows = crate::storage::open(dir)?.rows.into_iter();
    Ok(rows.map(|row| (row.key, row.revision, row.body)).collect())
}

#[tokio::test]
async fn whatever_byte_is_damaged_nothing_wrong_is_read_and_nothing_panics() {
    let dir = Dir::new("flips");
    let server = open(&dir.0).unwrap();
    for number in 0..40 {
        let text = "x".repeat(number * 50);
        server
            .config_map(&format!("m{number}"), json!({"text": text}))
            .await;
    }
    drop(server);
    let whole = rows(&dir.0).unwrap();
    let file = dir.0.join(FILE);
    let bytes = std::fs::read(&file).unwrap();
    let rng = Rng::from_seed(1);
    let mut refusals = 0;
    for _ in 0..150 {
        let mut damaged = bytes.clone();
        let place = (rng.next_u64() % bytes.len() as u64) as usize;
        damaged[place] ^= 1 << (rng.next_u64() % 8);
        std::fs::write(&file, damaged).unwrap();
        match rows(&dir.0) {
            Ok(found) => assert_eq!(found, whole, "byte {place}"),
            Err(why) => {
                refusals += 1;
                let _ = std::fs::remove_file(dir.0.join("steersman.redb.damaged"));
                if let Ok(repaired) = repair(&dir.0) {
                    let found =
                        rows(&dir.0).unwrap_or_else(|again| panic!("byte {place}: {why}; {again}"));
                    assert_eq!(found.len(), repaired.kept, "byte {place}");
                    assert!(found.iter().all(|row| whole.contains(row)), "byte {place}");
                }
            }
        }
    }
    assert!(refusals > 15, "{refusals} of 150 were noticed");
}

#[tokio::test]
async fn what_a_killed_first_start_may_leave_is_finished() {
    let dir = Dir::new("half-made");
    for name in ["up.json", "up.log", "clock-ahead", "steersman.redb.partial"] {
        std::fs::write(dir.0.join(name), "cut sh").unwrap();
    }
    std::fs::create_dir(dir.0.join("pki")).unwrap();
    std::fs::write(dir.0.join("pki/sa.key.partial"), "-----BEG").unwrap();
    Pki::load_or_generate(&dir.0.join("pki"), &[], Validity::for_tests()).unwrap();
    drop(open(&dir.0).unwrap());
    assert!(!dir.0.join("steersman.redb.partial").exists());
    assert!(!dir.0.join("pki/sa.key.partial").exists());
}

const CHILD: &str = "STEERSMAN_TEST_FIRST_START";

/// Not a test of its own: what the test below kills.
#[tokio::test]
async fn child_that_starts() {
    if let Ok(dir) = std::env::var(CHILD) {
        Pki::load_or_generate(&Path::new(&dir).join("pki"), &[], Validity::for_tests()).unwrap();
        drop(open(Path::new(&dir)).unwrap());
    }
}

#[tokio::test]
async fn a_first_start_can_be_killed_at_any_moment() {
    for run in 0..40 {
        let dir = Dir::new("first-start");
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "tests::at_rest::child_that_starts"])
            .env(CHILD, &dir.0)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        // However far it is by then.
        tokio::time::sleep(Duration::from_micros(run * 750)).await;
        child.kill().unwrap();
        child.wait().unwrap();
        Pki::load_or_generate(&dir.0.join("pki"), &[], Validity::for_tests()).unwrap();
        let started = open(&dir.0);
        assert!(started.is_ok(), "{:?}", started.err());
    }
}
