//! A full disk: the server says so, and lets people delete.

use super::durable::{Dir, open};
use super::*;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

const CHILD: &str = "STEERSMAN_TEST_FULL_DISK";

/// In a small file system of its own, which takes the right to mount one (users of a namespace of their own have it).
#[tokio::test]
async fn a_full_disk_is_told_and_deletions_go_on() {
    let dir = Dir::new("full-disk");
    let mount = "mount -t tmpfs -o size=40m tmpfs \"$0\"";
    let can = Command::new("unshare")
        .args(["-rm", "sh", "-c", mount])
        .arg(&dir.0)
        .output();
    if !can.is_ok_and(|output| output.status.success()) {
        assert!(
            std::env::var_os("CI").is_none(),
            "unshare -rm cannot mount here: allow user namespaces"
        );
        return;
    }
    let output = Command::new("unshare")
        .args(["-rm", "sh", "-c", &format!("{mount} && exec \"$@\"")])
        .arg(&dir.0)
        .arg(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "tests::full_disk::child_that_fills_it",
            "--nocapture",
        ])
        .env(CHILD, &dir.0)
        .output()
        .unwrap();
    let (out, err) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    assert!(output.status.success(), "{out}\n{err}");
    assert!(out.contains("has room again"), "{out}\n{err}");
}

/// Not a test of its own: what the test above runs.
#[tokio::test]
async fn child_that_fills_it() {
    let Ok(dir) = std::env::var(CHILD) else {
        return;
    };
    let dir = Path::new(&dir);
    let ballast = dir.join("ballast.partial");
    std::fs::write(&ballast, vec![1; 16 * 1024 * 1024]).unwrap();
    let server = open(dir).unwrap();
    let large = |number: usize| {
        json!({
            "metadata": {"name": format!("large-{number}"), "finalizers": ["example.com/held"]},
            "data": {"k": "x".repeat(900_000)}
        })
    };
    let mut kept = Vec::new();
    let refused = loop {
        let (code, answer) = server.post(CONFIG_MAPS, large(kept.len())).await;
        if code != 201 {
            break (code, answer);
        }
        kept.push(format!("{CONFIG_MAPS}/large-{}", kept.len()));
        assert!(kept.len() < 30, "it never got full");
    };
    assert_eq!(refused.0, 500, "{}", refused.1);
    assert!(kept.len() > 5);

    let (code, text) = server.get("/readyz").await;
    assert_eq!(code, 500, "{text}");
    let text = text.as_str().unwrap();
    assert!(
        text.contains("[-]storage failed: reason withheld\n"),
        "{text}"
    );
    assert_eq!(
        server.get("/livez").await.0,
        200,
        "a restart would not help"
    );
    assert_eq!(server.get("/readyz?exclude=storage").await.0, 200);
    // What needs room is refused before it can spoil the batch of a deletion.
    let (code, answer) = server.post(CONFIG_MAPS, large(99)).await;
    assert_eq!(code, 500);
    let message = answer["message"].as_str().unwrap();
    assert!(message.contains("database space exceeded"), "{message}");

    // Deleting takes writing twice: a time of deletion, then the end of the finalizer.
    let last = kept.len() - 1;
    for (number, path) in kept.iter().enumerate().take(last) {
        let (code, answer) = server.delete(path).await;
        assert_eq!(code, 200, "{number}: {answer}");
        let (code, answer) = server
            .patch(
                path,
                "merge-patch",
                json!({"metadata": {"finalizers": null}}),
            )
            .await;
        assert_eq!(code, 200, "{number}: {answer}");
        assert_eq!(server.get(path).await.0, 404);
    }
    drop(server);
    // A server starts there, too, and finds what was kept.
    let server = open(dir).unwrap();
    assert_eq!(server.get(&kept[last]).await.0, 200, "what stayed is there");
    for path in &kept[..last] {
        assert_eq!(server.get(path).await.0, 404, "what was deleted stays so");
    }
    assert_eq!(server.get("/readyz").await.0, 500);
    std::fs::remove_file(&ballast).unwrap();
    let is_ready = async {
        while server.get("/readyz").await.0 != 200 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), is_ready)
        .await
        .expect("it notices that there is room");
    let (code, answer) = server.post(CONFIG_MAPS, large(100)).await;
    assert_eq!(code, 201, "{answer}");
    #[expect(
        clippy::print_stdout,
        reason = "the test that started this looks for it"
    )]
    {
        println!("has room again");
    }
}
