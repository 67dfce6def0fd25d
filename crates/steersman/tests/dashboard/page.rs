//! What people do with the page.

use serde_json::{Value, json};

use crate::browser::Browser;
use crate::home::{Api, Home, Up, until};

const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";

pub fn deployment(name: &str, replicas: u32) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
        "spec": {
            "replicas": replicas, "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": name, "image": format!("{name}:1")}]},
            },
        },
    })
}

/// A new image, which may be one that cannot be pulled.
pub fn image(name: &str, image: &str, fails: bool) -> Value {
    let annotations = json!({"steersman.dev/image-pull-failure": if fails { json!("true") } else { Value::Null }});
    json!({"spec": {"template": {
        "metadata": {"annotations": annotations},
        "spec": {"containers": [{"name": name, "image": image}]},
    }}})
}

pub fn create(api: &Api, path: &str, object: &Value) {
    until("the object to be taken", || {
        api.send("POST", path, object).is_ok()
    });
}

/// A cluster with a page of its owner.
fn opened(name: &str, arguments: &[&str]) -> Option<(Home, Up, Browser)> {
    let mut browser = Browser::start(name)?;
    let home = Home::new(&format!("dashboard-{name}"));
    let mut all = vec!["--in-memory", "--dashboard-port=0"];
    all.extend(arguments);
    let up = home.up(&all);
    let link = home.succeed(&["dashboard"]);
    browser.open(link.trim());
    browser.until_said("settled");
    Some((home, up, browser))
}

#[test]
fn a_bad_image_is_seen_as_stuck_and_then_as_settled_and_the_slider_goes_back() {
    let Some((_home, up, mut browser)) = opened("rollout", &[]) else {
        return;
    };
    let api = up.api();
    create(&api, DEPLOYMENTS, &deployment("web", 3));
    api.await_value(
        &format!("{DEPLOYMENTS}/web"),
        "/status/availableReplicas",
        &json!(3),
    );
    browser.until_said("Everything is settled");

    let slider = "Number(document.querySelector('footer input').value)";
    // What comes within a second of its opening belongs to where a page begins, and nobody can go back behind that.
    browser.until(&format!(
        "{slider} > Number(document.querySelector('footer input').min) + 1000"
    ));

    let web = format!("{DEPLOYMENTS}/web");
    api.send("PATCH", &web, &image("web", "web:bad", true))
        .unwrap();
    browser.until("document.querySelector('.verdict.stuck')?.innerText.includes('cannot pull image \"web:bad\"')");
    browser.until("document.querySelector('.verdict .command code')?.innerText.includes('rollout undo deployment/web')");
    browser.until("document.querySelector('.rollouts svg')");
    browser.until(
        "/progress deadline in \\d+m/.test(document.querySelector('.verdict .until')?.innerText)",
    );
    let before = browser.eval(slider);
    browser.until(&format!("{slider} > {before}"));
    let stuck_at = browser.eval(slider);

    api.send("PATCH", &web, &image("web", "web:2", false))
        .unwrap();
    browser.until_said("Everything is settled");
    // The last half second of the slider is "now", and the rollout may take no longer than that.
    browser.until(&format!("{slider} > {stuck_at} + 1000"));

    let slide = |to: &str| {
        format!(
            "(() => {{ const slider = document.querySelector('footer input'); slider.value = {to};
            slider.dispatchEvent(new Event('input', {{bubbles: true}})); return true; }})()"
        )
    };
    browser.eval(&slide(&stuck_at.to_string()));
    browser.until("document.querySelector('.verdict.stuck')");
    browser.until_said("ago");
    browser.click("button.live");
    browser.until_said("Everything is settled");

    // An object is found by the keyboard, and its page has a link of its own.
    browser.eval("document.dispatchEvent(new KeyboardEvent('keydown', {key: '/', bubbles: true}))");
    browser.until("document.activeElement.matches('.search input')");
    browser.call("Input.insertText", json!({"text": "web"}));
    browser.until("document.querySelector('#found li')");
    for kind in ["keyDown", "keyUp"] {
        let key =
            json!({"type": kind, "key": "Enter", "code": "Enter", "windowsVirtualKeyCode": 13});
        browser.call("Input.dispatchKeyEvent", key);
    }
    browser.until("location.hash.startsWith('#/object/')");
    browser.eval("location.hash = '#/object/Deployment/default/web'");
    browser.until_said("Owners and dependents".to_uppercase().as_str());
    browser.until("document.querySelectorAll('.tree .leaf').length >= 5");
    browser.until("document.querySelector('.yaml pre')?.textContent.includes('kind: Deployment')");

    let address = up.facts["dashboard"]["url"].as_str().unwrap();
    let strangers: Vec<&String> = browser
        .requests
        .iter()
        .filter(|url| !url.starts_with(address) && !url.starts_with("data:"))
        .collect();
    assert!(strangers.is_empty(), "{strangers:?}");
    assert!(browser.complaints.is_empty(), "{:?}", browser.complaints);
}

/// A Service that selects nobody, an Ingress that leads to it, a quota that refuses, and a request that nobody approves.
#[test]
fn whatever_is_stuck_is_listed() {
    let Some((_home, up, mut browser)) = opened("stuck", &[]) else {
        return;
    };
    let api = up.api();
    browser.until_said("Everything is settled");
    let service = json!({"metadata": {"name": "lost"},
        "spec": {"selector": {"app": "nobody"}, "ports": [{"port": 80}]}});
    create(&api, "/api/v1/namespaces/default/services", &service);
    let backend = json!({"service": {"name": "lost", "port": {"number": 80}}});
    let ingress = json!({"metadata": {"name": "shop"}, "spec": {"defaultBackend": backend}});
    let ingresses = "/apis/networking.k8s.io/v1/namespaces/default/ingresses";
    create(&api, ingresses, &ingress);
    let listed = |name: &str, words: &str| {
        format!(
            "[...document.querySelectorAll('.verdict.stuck')].some((one) => one.innerText.includes('{name}') && one.innerText.includes('{words}'))"
        )
    };
    browser.until(&listed("service/lost", "elects no pods"));
    browser.until(&listed("ingress/shop", "/lost selects no pods"));

    create(
        &api,
        "/api/v1/namespaces/default/resourcequotas",
        &json!({"metadata": {"name": "small"}, "spec": {"hard": {"pods": "1"}}}),
    );
    api.await_value(
        "/api/v1/namespaces/default/resourcequotas/small",
        "/status/hard/pods",
        &json!("1"),
    );
    let mut nobody = deployment("nobody", 2);
    nobody["spec"]["template"]["spec"]["containers"][0]["ports"] = json!([{"containerPort": 80}]);
    create(&api, DEPLOYMENTS, &nobody);
    browser.until(&listed("deployment/nobody", "exceeded quota: small"));
    browser.until(&listed("resourcequota/small", "refuses more"));
    // What it selects takes traffic, and so does what leads to it.
    for settled in ["service/lost", "ingress/shop"] {
        browser.until(&format!(
            "!document.querySelector('.verdicts').innerText.includes('{settled}')"
        ));
    }
    api.send(
        "DELETE",
        "/api/v1/namespaces/default/resourcequotas/small",
        &json!({}),
    )
    .unwrap();
    api.send(
        "DELETE",
        &format!("{DEPLOYMENTS}/nobody"),
        &json!({"propagationPolicy": "Background"}),
    )
    .unwrap();
    api.send(
        "DELETE",
        "/api/v1/namespaces/default/services/lost",
        &json!({}),
    )
    .unwrap();
    browser.until(&listed("ingress/shop", "/lost does not exist"));
    api.send("DELETE", &format!("{ingresses}/shop"), &json!({}))
        .unwrap();
    browser.until_said("Everything is settled");
}

#[test]
fn a_node_is_drained_from_the_page_once_it_is_confirmed() {
    let Some((_home, up, mut browser)) = opened("drain", &["--nodes=2"]) else {
        return;
    };
    let api = up.api();
    create(&api, DEPLOYMENTS, &deployment("web", 4));
    api.await_value(
        &format!("{DEPLOYMENTS}/web"),
        "/status/availableReplicas",
        &json!(4),
    );
    let drain = "[...document.querySelectorAll('.node')].find((node) => node.innerText.includes('node-0'))\
        ?.querySelectorAll('button')";
    browser.until(&format!(
        "[...({drain} ?? [])].some((one) => one.innerText === 'Drain')"
    ));
    browser.eval(&format!(
        "[...{drain}].find((one) => one.innerText === 'Drain').click()"
    ));
    browser.until("document.querySelector('dialog[open]')?.innerText.includes('Drain node-0')");
    assert!(
        api.get("/api/v1/nodes/node-0")["spec"]["unschedulable"].is_null(),
        "not before it is confirmed"
    );
    browser.click("dialog button.do");
    api.await_value("/api/v1/nodes/node-0", "/spec/unschedulable", &json!(true));
    browser.until("[...document.querySelectorAll('.node')].some((node) => /node-0\\s+cordoned\\s+0 pods/.test(node.innerText))");
}

#[test]
fn without_the_link_there_is_no_access_and_a_link_works_once() {
    let Some(mut browser) = Browser::start("access") else {
        return;
    };
    let home = Home::new("dashboard-access");
    let up = home.up(&["--in-memory", "--dashboard-port=0"]);
    let address = up.facts["dashboard"]["url"].as_str().unwrap();
    browser.open(address);
    browser.until_said("No access yet");
    let link = home.succeed(&["dashboard"]);
    browser.open(link.trim());
    browser.until_said("Everything is settled");
    let mut other = Browser::start("access-again").unwrap();
    other.open(link.trim());
    other.until_said("This link was used before");
}

#[test]
fn rbac_hides_a_namespace() {
    let Some(mut browser) = Browser::start("rbac") else {
        return;
    };
    let home = Home::new("dashboard-rbac");
    let up = home.up(&["--in-memory", "--dashboard-port=0"]);
    let api = up.api();
    for namespace in ["shop", "vault"] {
        create(
            &api,
            "/api/v1/namespaces",
            &json!({"metadata": {"name": namespace}}),
        );
        let path = format!("/apis/apps/v1/namespaces/{namespace}/deployments");
        create(&api, &path, &deployment(&format!("of-{namespace}"), 1));
    }
    let binding = json!({"metadata": {"name": "viewer"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
        "subjects": [{"kind": "ServiceAccount", "name": "default", "namespace": "shop"}]});
    create(
        &api,
        "/apis/rbac.authorization.k8s.io/v1/namespaces/shop/rolebindings",
        &binding,
    );
    let mut token = String::new();
    until("the account", || {
        let path = "/api/v1/namespaces/shop/serviceaccounts/default/token";
        let answer = api
            .send("POST", path, &json!({"spec": {}}))
            .unwrap_or_default();
        token = answer["status"]["token"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        !token.is_empty()
    });
    browser.open(up.facts["dashboard"]["url"].as_str().unwrap());
    browser.until_said("No access yet");
    browser.eval(&format!(
        "document.querySelector('#token').value = {}",
        json!(token)
    ));
    browser.click("form button");
    browser.until("document.querySelector('.search input')");
    let search = |text: &str| {
        format!("(() => {{ const input = document.querySelector('.search input'); input.value = '{text}';
            input.dispatchEvent(new Event('input', {{bubbles: true}})); return true; }})()")
    };
    browser.eval(&search("of-shop"));
    browser.until("document.querySelectorAll('#found li').length >= 2");
    browser.eval(&search("of-vault"));
    browser.until("document.querySelectorAll('#found li').length === 0");
    assert!(!browser.says("vault"));
    // Where a pod is stands in the pod; nodes themselves are no part of his role.
    browser.until("document.querySelectorAll('.node').length === 1");
    assert_eq!(
        browser.eval("document.querySelectorAll('.node a').length"),
        0
    );
    // He asks for the verdicts of what he sees.
    let bad = image("of-shop", "of-shop:bad", true);
    let path = "/apis/apps/v1/namespaces/shop/deployments/of-shop";
    api.send("PATCH", path, &bad).unwrap();
    browser.until("document.querySelector('.verdict.stuck')?.innerText.includes('cannot pull image \"of-shop:bad\"')");
    browser.until("document.querySelector('.rollouts path.predicted')");
    assert!(!browser.says("vault"));
}

#[test]
fn a_preview_opens_from_a_file_and_needs_no_server() {
    let Some(mut browser) = Browser::start("preview") else {
        return;
    };
    let home = Home::new("dashboard-preview");
    let before = home.file("before.yaml", &deployment("web", 3).to_string());
    let mut after = deployment("web", 3);
    after["spec"]["template"]["spec"]["containers"][0]["image"] = "web:2".into();
    let after = home.file("after.yaml", &after.to_string());
    let page = home.succeed(&[
        "preview",
        "-f",
        &after,
        "--snapshot",
        &before,
        "--output",
        "html",
    ]);
    let file = home.file("rollout.html", &page);
    browser.open(&format!("file://{file}"));
    browser.until_said("Completes in");
    browser.until("document.querySelectorAll('.node').length >= 3");
    let end = "(() => { const slider = document.querySelector('footer input'); slider.value = Number(slider.min) + 12000;
        slider.dispatchEvent(new Event('input', {bubbles: true})); return true; })()";
    browser.eval(end);
    browser.until("document.querySelector('.rollouts svg path.band')");
    browser.until_said("deployment/web");
    let others: Vec<&String> = browser
        .requests
        .iter()
        .filter(|url| url.starts_with("http"))
        .collect();
    assert!(others.is_empty(), "{others:?}");
    assert!(browser.complaints.is_empty(), "{:?}", browser.complaints);
}

/// The informers of a page that has just been opened list their kinds one after the other.
#[test]
fn pods_that_come_before_their_replica_set_count_for_its_deployment() {
    let Some((_home, _up, mut browser)) = opened("model", &[]) else {
        return;
    };
    let samples = browser.eval(
        "import('app/model').then(({Model}) => {
            const model = new Model();
            model.reset({t: 0});
            const row = (kind, uid, more) => ({kind, ns: 'x', name: uid, uid, at: 0, ...more});
            model.apply({t: 1, set: {'Pod/x/p': row('Pod', 'p', {owner: 'r', hash: 'h', ready: true, phase: 'Running'})}});
            model.apply({t: 2, set: {'ReplicaSet/x/r': row('ReplicaSet', 'r', {owner: 'd', workload: true})}});
            return model.series.get('d') ?? [];
        })",
    );
    assert_eq!(samples, json!([{"t": 2, "counts": {"h": [1, 0, 0]}}]));
}

/// axe-core from npm, where somebody put it: it is as large as everything else together.
#[test]
fn axe_finds_nothing() {
    let Some(path) = std::env::var_os("STEERSMAN_AXE") else {
        crate::browser::skip("STEERSMAN_AXE does not name an axe.min.js (npm pack axe-core)");
        return;
    };
    let axe = std::fs::read_to_string(path).unwrap();
    let Some((_home, up, mut browser)) = opened("axe", &[]) else {
        return;
    };
    let api = up.api();
    create(&api, DEPLOYMENTS, &deployment("web", 3));
    api.send(
        "PATCH",
        &format!("{DEPLOYMENTS}/web"),
        &image("web", "web:bad", true),
    )
    .unwrap();
    browser.until("document.querySelector('.verdict.stuck')");
    browser.eval(&format!("{axe}; true"));
    for scheme in ["light", "dark"] {
        browser.prefer(scheme);
        for page in [
            "#/",
            "#/object/Deployment/default/web",
            "#/object/Node/-/node-0",
        ] {
            browser.eval(&format!("location.hash = '{page}'"));
            browser.until("document.querySelector('main h1')");
            browser.until(if page == "#/" {
                "document.querySelector('.nodes')"
            } else {
                "document.querySelector('.yaml')"
            });
            let found = browser.eval("axe.run().then((all) => all.violations.map((one) => `${one.id}: ${one.help}: ${one.nodes.map((node) => node.html.slice(0, 160)).join(' | ')}`))");
            assert_eq!(found, json!([]), "{scheme} {page}");
        }
    }
}
