//! The page in figures: first paint, weight, memory, and how long a change takes to be seen. For `docs/benchmarks.md`.

use std::process::{Command, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use crate::browser::Browser;
use crate::home::{Api, Home, Up};
use crate::page::{create, deployment};

const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const PAGES: usize = 7;
const CHANGES: u64 = 30;
const PODS: u64 = 1000;

/// Prints figures of the binary that STEERSMAN_DASHBOARD_FIGURES names; without it there is nothing to do.
#[test]
fn figures() {
    let Ok(program) = std::env::var("STEERSMAN_DASHBOARD_FIGURES") else {
        return;
    };
    let Some(mut browser) = Browser::start("figures") else {
        return;
    };
    let home = Home::new("dashboard-figures");
    let command = |arguments: &[&str]| {
        let mut command = Command::new(&program);
        command
            .args(arguments)
            .env_remove("KUBECONFIG")
            .env_remove("XDG_DATA_HOME")
            .env("HOME", &home.0)
            .stdin(Stdio::null());
        command
    };
    let up = Up::start(&mut command(&[
        "up",
        "--output=json",
        "--port=0",
        "--in-memory",
        "--dashboard-port=0",
    ]));
    let link = || {
        let output = command(&["dashboard"]).output().unwrap();
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    let api = up.api();
    create(&api, DEPLOYMENTS, &deployment("web", 3));
    available(&api, 3);

    let empty = resident(&up);
    paints(&mut browser, &link);
    weight(&mut browser);
    println!(
        "memory, 3 pods: {empty} kB before the first page, {} kB with one open",
        resident(&up)
    );
    latency(&mut browser, &api);

    browser.open("about:blank");
    scale(&api, PODS);
    available(&api, PODS);
    let before = resident(&up);
    browser.open(&link());
    browser.until_said("Everything is settled");
    println!(
        "memory, {PODS} pods: {before} kB without a page, {} kB with one open",
        resident(&up)
    );
}

fn paints(browser: &mut Browser, link: &dyn Fn() -> String) {
    let mut first = Vec::new();
    for _ in 0..PAGES {
        browser.open("about:blank");
        browser.open(&link());
        browser.until_said("Everything is settled");
        let paint = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime";
        browser.until(paint);
        first.push(browser.eval(paint).as_f64().unwrap());
    }
    println!("first paint: {first:.0?} ms");
}

/// What the page loads, as it is sent and as gzip would make it.
fn weight(browser: &mut Browser) {
    let weighed = browser.eval(
        "Promise.all([...new Set([location.href, ...performance.getEntriesByType('resource')
            .map((one) => one.name).filter((name) => name.includes('/assets/'))])]
            .map(async (url) => {
                const body = await (await fetch(url)).blob();
                const packed = body.stream().pipeThrough(new CompressionStream('gzip'));
                return [body.size, (await new Response(packed).blob()).size];
            }))
            .then((sizes) => sizes.reduce(([one, two], [size, packed]) => [one + size, two + packed], [0, 0]).concat(sizes.length))",
    );
    println!("weight: [bytes, gzipped, files] {weighed}");
}

/// From the API server's answer to a change of `spec.replicas` to what the Deployment controller decided, on the page.
fn latency(browser: &mut Browser, api: &Api) {
    browser.eval(
        "(() => { window.seen = {}; const look = () => {
            for (const [, wanted] of document.body.textContent.matchAll(/ from \\d+ to (\\d+):/g)) window.seen[wanted] ??= Date.now();
        }; new MutationObserver(look).observe(document.body, {subtree: true, childList: true, characterData: true}); return true; })()",
    );
    let mut passed = Vec::new();
    for wanted in 10..10 + CHANGES {
        scale(api, wanted);
        let answered = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        browser.until(&format!("window.seen[{wanted}]"));
        let seen = browser
            .eval(&format!("window.seen[{wanted}]"))
            .as_f64()
            .unwrap();
        passed.push(seen - answered.as_secs_f64() * 1000.0);
        available(api, wanted);
    }
    passed.sort_by(f64::total_cmp);
    let (median, worst) = (passed[passed.len() / 2], passed[passed.len() - 1]);
    println!("latency of {CHANGES} changes: median {median:.0} ms, worst {worst:.0} ms");
}

fn scale(api: &Api, replicas: u64) {
    let patch = json!({"spec": {"replicas": replicas}});
    api.send("PATCH", &format!("{DEPLOYMENTS}/web"), &patch)
        .unwrap();
}

fn available(api: &Api, replicas: u64) -> Value {
    let path = format!("{DEPLOYMENTS}/web");
    api.await_value(&path, "/status/availableReplicas", &json!(replicas))
}

fn resident(up: &Up) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", up.child.id())).unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmRSS:"))
        .unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}
