//! Pictures of each panel, in both themes and on a phone: `cargo xtask screenshots`.

use std::path::PathBuf;

use serde_json::json;

use crate::browser::Browser;
use crate::home::Home;
use crate::page::{create, deployment, image};

const SHOP: &str = "/apis/apps/v1/namespaces/shop/deployments";

/// Draws into the folder that STEERSMAN_SCREENSHOTS names; without it there is nothing to do.
#[test]
fn screenshots() {
    let Some(folder) = std::env::var_os("STEERSMAN_SCREENSHOTS").map(PathBuf::from) else {
        return;
    };
    let Some(mut browser) = Browser::start("screenshots") else {
        return;
    };
    std::fs::create_dir_all(&folder).unwrap();
    let home = Home::new("dashboard-screenshots");
    let up = home.up(&["--in-memory", "--dashboard-port=0", "--nodes=6"]);
    let api = up.api();
    create(
        &api,
        "/api/v1/namespaces",
        &json!({"metadata": {"name": "shop"}}),
    );
    for (name, replicas) in [("web", 12), ("api", 4), ("cart", 6), ("search", 5)] {
        create(&api, SHOP, &deployment(name, replicas));
    }
    create(
        &api,
        "/apis/policy/v1/namespaces/shop/poddisruptionbudgets",
        &json!({"metadata": {"name": "web"},
        "spec": {"minAvailable": 9, "selector": {"matchLabels": {"app": "web"}}}}),
    );
    create(
        &api,
        "/api/v1/namespaces/shop/services",
        &json!({"metadata": {"name": "web"},
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]}}),
    );
    for (name, replicas) in [("web", 12), ("search", 5)] {
        api.await_value(
            &format!("{SHOP}/{name}"),
            "/status/availableReplicas",
            &json!(replicas),
        );
    }
    browser.prefer("light");
    browser.resize(1280, 1000);
    browser.open(home.succeed(&["dashboard"]).trim());
    browser.until_said("Everything is settled");
    browser.screenshot(&folder.join("settled.png"));

    api.send(
        "PATCH",
        &format!("{SHOP}/api"),
        &image("api", "api:bad", true),
    )
    .unwrap();
    let mut slow = image("web", "web:2", false);
    slow["spec"]["template"]["metadata"]["annotations"]["steersman.dev/ready-delay"] = "10s".into();
    api.send("PATCH", &format!("{SHOP}/web"), &slow).unwrap();
    browser.until("document.querySelector('.verdict.stuck')");
    browser.until("document.querySelectorAll('.rollouts path.predicted').length === 2");
    browser.until("/ready: [6-9] new/.test([...document.querySelectorAll('.chart')].find((one) => one.innerText.includes('deployment/web'))?.innerText)");
    browser.resize(1280, 1420);
    browser.screenshot(&folder.join("light.png"));
    browser.prefer("dark");
    browser.eval("new Promise((done) => setTimeout(done, 300))");
    browser.screenshot(&folder.join("dark.png"));
    browser.prefer("light");
    browser.until("/12 of 12 ready: 12 new/.test(document.querySelector('.charts').innerText)");
    browser.resize(390, 844);
    browser.eval("new Promise((done) => setTimeout(done, 300))");
    browser.screenshot(&folder.join("phone.png"));

    browser.resize(1280, 1240);
    browser.eval("location.hash = '#/object/Deployment/shop/api'");
    browser.until("document.querySelector('.yaml')");
    browser.until("document.querySelectorAll('.tree .leaf').length >= 5");
    browser.screenshot(&folder.join("object.png"));
    browser.eval("location.hash = '#/'");
    home.succeed(&["node", "stop", "node-4"]);
    browser.until_said("stopped");
    browser.resize(1280, 760);
    browser.eval("scrollTo(0, document.querySelector('.nodes').offsetTop - 70)");
    browser.eval("new Promise((done) => setTimeout(done, 300))");
    browser.screenshot(&folder.join("nodes.png"));
    browser.eval("(() => { scrollTo(0, 0); const slider = document.querySelector('footer input'); slider.value = Number(slider.max) - 6000; slider.dispatchEvent(new Event('input', {bubbles: true})); return true; })()");
    browser.resize(1280, 1000);
    browser.until_said("ago");
    browser.screenshot(&folder.join("time.png"));
}
