//! `kubectl logs` and `kubectl exec` on simulated containers, with kubectl itself.

use std::process::Command;

use real_tests::installation::{Installation, KUBERNETES};
use serde_json::json;

use crate::home::{Home, until};

const PODS: &str = "/api/v1/namespaces/default/pods";

#[test]
fn kubectl_shows_logs_and_runs_commands() {
    let kubectl = Installation::of(KUBERNETES).unwrap().command("kubectl");
    if !kubectl.is_file() {
        let remedy = "kubectl is not built; run `cargo xtask real build`";
        assert!(
            std::env::var_os("CI").is_none_or(|ci| ci != "true"),
            "{remedy}"
        );
        eprintln!("SKIPPED kubectl logs and exec: {remedy}");
        return;
    }
    let home = Home::new("containers");
    let up = home.up(&["--in-memory", "--nodes=1"]);
    let api = up.api();
    let pod = json!({
        "metadata": {"name": "web"},
        "spec": {"containers": [{"name": "web", "image": "busybox", "command": ["sh", "-c", "echo hi; sleep infinity"]}]},
    });
    until("the pod to be taken", || {
        api.send("POST", PODS, &pod).is_ok()
    });
    api.await_value(&format!("{PODS}/web"), "/status/phase", &json!("Running"));
    let run = |arguments: &[&str]| {
        let output = Command::new(&kubectl)
            .arg("--kubeconfig")
            .arg(up.kubeconfig())
            .args(arguments)
            .output()
            .unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (
            output.status.code(),
            text(&output.stdout),
            text(&output.stderr),
        )
    };
    let well = |text: &str| (Some(0), text.to_owned(), String::new());
    assert_eq!(run(&["logs", "web"]), well("hi\n"));
    assert_eq!(run(&["exec", "web", "--", "hostname"]), well("web\n"));
    assert_eq!(
        run(&["exec", "web", "--", "sh", "-c", "echo a >&2; exit 3"]),
        (
            Some(3),
            String::new(),
            "a\ncommand terminated with exit code 3\n".to_owned()
        )
    );
    let (code, _, said) = run(&["attach", "web"]);
    assert_eq!(code, Some(1));
    let sentences = said.matches("this container is simulated").count();
    assert_eq!(sentences, 1, "{said}");
    up.stop();
}
