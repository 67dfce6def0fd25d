//! The definitions of well-known projects, and objects of their kinds, on both API servers: what one accepts the other
//! accepts, and what one refuses the other refuses in the same words.
//!
//! The definitions are not ours: they come from the projects' Go modules, which the Go tool chain keeps in its cache.
//! Objects are made from their schemas: empty ones, full ones, and full ones with something wrong in one place.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use real_tests::embedded::Embedded;
use real_tests::{Api, Cluster, ClusterOptions, installation};
use serde::Deserialize;
use serde_json::{Map, Value, json};

const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// Module, version, and the folder or file that has the definitions.
const PROJECTS: [(&str, &str, &str); 13] = [
    (
        "github.com/cert-manager/cert-manager",
        "v1.21.2",
        "deploy/crds",
    ),
    (
        "github.com/prometheus-operator/prometheus-operator",
        "v0.85.0",
        "example/prometheus-operator-crd",
    ),
    (
        "github.com/external-secrets/external-secrets",
        "v1.3.2",
        "config/crds/bases",
    ),
    ("github.com/kyverno/kyverno", "v1.19.1", "config/crds"),
    ("github.com/vmware-tanzu/velero", "v1.18.3", "config/crd"),
    (
        "istio.io/api",
        "v1.31.1",
        "kubernetes/customresourcedefinitions.gen.yaml",
    ),
    (
        "github.com/cilium/cilium",
        "v1.20.2",
        "pkg/k8s/apis/cilium.io/client/crds",
    ),
    ("github.com/argoproj/argo-cd/v3", "v3.5.6", "manifests/crds"),
    (
        "github.com/argoproj/argo-rollouts",
        "v1.10.1",
        "manifests/crds",
    ),
    ("sigs.k8s.io/gateway-api", "v1.3.0", "config/crd/standard"),
    (
        "sigs.k8s.io/cluster-api",
        "v1.14.2",
        "core/config/crd/bases",
    ),
    ("github.com/kedacore/keda/v2", "v2.21.0", "config/crd/bases"),
    (
        "github.com/projectcontour/contour",
        "v1.33.8",
        "examples/contour/01-crds.yaml",
    ),
];

/// `PROJECTS=istio,cilium` tries just those.
#[test]
fn definitions_and_objects_of_well_known_projects_are_taken_alike() {
    let Some(installation) = installation::for_test() else {
        return;
    };
    let chosen = std::env::var("PROJECTS").ok();
    let is_chosen = |module: &str| {
        let chosen = chosen.as_deref();
        chosen.is_none_or(|chosen| chosen.split(',').any(|name| module.contains(name)))
    };
    let mut definitions = Vec::new();
    for (module, version, place) in PROJECTS {
        if !is_chosen(module) {
            continue;
        }
        match fetch(module, version) {
            Some(folder) => read(&folder.join(place), &mut definitions),
            None => installation::say(&format!("skipped: {module}@{version} cannot be had")),
        }
    }
    if definitions.is_empty() {
        return;
    }
    let cluster = Cluster::start(&installation, ClusterOptions::default()).unwrap();
    let (_, theirs) = cluster
        .user("projects", "kubernetes-admin", Some("system:masters"))
        .unwrap();
    let embedded = Embedded::start(&cluster.path("embedded")).unwrap();
    let mut found = Vec::new();
    let mut tried = 0;
    for definition in &definitions {
        let (one, two) = (
            Answer::of(&theirs, CRDS, definition),
            Answer::of(&embedded.api, CRDS, definition),
        );
        tried += 1;
        let name = definition["metadata"]["name"].as_str().unwrap_or_default();
        one.compare(&two, name, &mut found);
        if one.code == 201 && two.code == 201 {
            tried += try_objects(&theirs, &embedded.api, definition, &mut found);
        }
    }
    installation::say(&format!(
        "{} definitions, {tried} requests, {} answers differ",
        definitions.len(),
        found.len()
    ));
    assert!(
        found.is_empty(),
        "{} differences:\n{}",
        found.len(),
        found.join("\n")
    );
}

fn fetch(module: &str, version: &str) -> Option<PathBuf> {
    #[derive(Deserialize)]
    #[serde(rename_all = "PascalCase")]
    struct Downloaded {
        dir: PathBuf,
    }
    let command = Command::new("go")
        .args(["mod", "download", "-json", &format!("{module}@{version}")])
        .current_dir(std::env::temp_dir())
        .output();
    let downloaded: Downloaded = serde_json::from_slice(&command.ok()?.stdout).ok()?;
    Some(downloaded.dir)
}

/// All definitions of a file, or of the files in a folder.
fn read(place: &Path, definitions: &mut Vec<Value>) {
    if place.is_dir() {
        let entries = std::fs::read_dir(place).unwrap();
        let mut entries: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
        entries.sort();
        entries.iter().for_each(|entry| read(entry, definitions));
        return;
    }
    if place
        .extension()
        .is_none_or(|extension| extension != "yaml")
    {
        return;
    }
    let text = std::fs::read_to_string(place).unwrap();
    for document in serde_yaml_ng::Deserializer::from_str(&text) {
        let value = Value::deserialize(document).unwrap_or_default();
        let is_known = definitions
            .iter()
            .any(|known| known["metadata"]["name"] == value["metadata"]["name"]);
        if value["kind"] == "CustomResourceDefinition" && !is_known {
            definitions.push(value);
        }
    }
}

struct Answer {
    code: u16,
    body: Value,
    warnings: BTreeSet<String>,
}

impl Answer {
    fn of(api: &Api, path: &str, body: &Value) -> Answer {
        let sent = body.to_string();
        let answer = api
            .send("POST", path, "application/json", sent.as_bytes())
            .unwrap();
        let warnings = answer.header("warning").map(str::to_owned).collect();
        Answer {
            code: answer.status,
            body: serde_json::from_slice(&answer.body).unwrap_or_default(),
            warnings,
        }
    }

    /// What is wrong, in any order: upstream walks maps, which have none.
    fn causes(&self) -> BTreeSet<String> {
        let causes = self.body["details"]["causes"].as_array();
        let causes = causes.into_iter().flatten();
        causes.map(Value::to_string).collect()
    }

    fn compare(&self, ours: &Answer, what: &str, found: &mut Vec<String>) {
        let mut out = String::new();
        if self.code != ours.code {
            let _ = write!(
                out,
                " code {} but {}: {} / {};",
                self.code, ours.code, self.body["message"], ours.body["message"]
            );
        }
        let (theirs, mine) = (self.causes(), ours.causes());
        for cause in theirs.difference(&mine).take(3) {
            let _ = write!(out, "\n  only theirs: {cause}");
        }
        for cause in mine.difference(&theirs).take(3) {
            let _ = write!(out, "\n  only ours: {cause}");
        }
        if self.code < 300 && self.body["spec"] != ours.body["spec"] && !what.is_empty() {
            let is_definition = self.body["kind"] == "CustomResourceDefinition";
            if !is_definition {
                let _ = write!(
                    out,
                    "\n  spec {} but {}",
                    self.body["spec"], ours.body["spec"]
                );
            }
        }
        for warning in self.warnings.symmetric_difference(&ours.warnings).take(3) {
            let whose = if self.warnings.contains(warning) {
                "theirs"
            } else {
                "ours"
            };
            let _ = write!(out, "\n  warning only {whose}: {warning}");
        }
        if !out.is_empty() {
            let out: String = out.chars().take(2_000).collect();
            found.push(format!("{what}:{out}"));
        }
    }
}

/// Objects of each served version, as dry runs; the number of requests.
fn try_objects(theirs: &Api, ours: &Api, definition: &Value, found: &mut Vec<String>) -> usize {
    let spec = &definition["spec"];
    let (group, plural) = (
        spec["group"].as_str().unwrap(),
        spec["names"]["plural"].as_str().unwrap(),
    );
    let namespace = if spec["scope"] == "Namespaced" {
        "namespaces/default/"
    } else {
        ""
    };
    let mut tried = 0;
    for version in spec["versions"].as_array().into_iter().flatten() {
        if version["served"] != true {
            continue;
        }
        let name = version["name"].as_str().unwrap();
        let path = format!("/apis/{group}/{name}/{namespace}{plural}");
        let is_served = |api: &Api| {
            let until = Instant::now() + Duration::from_secs(20);
            while api
                .send("GET", &path, "application/json", &[])
                .unwrap()
                .status
                != 200
            {
                assert!(Instant::now() < until, "{path} is not served");
                std::thread::sleep(Duration::from_millis(50));
            }
        };
        is_served(theirs);
        is_served(ours);
        let schema = &version["schema"]["openAPIV3Schema"];
        for (number, mut object) in objects(schema).into_iter().enumerate() {
            object["apiVersion"] = json!(format!("{group}/{name}"));
            object["kind"] = spec["names"]["kind"].clone();
            object["metadata"] = json!({"name": "sample"});
            let dry = format!("{path}?dryRun=All");
            let (one, two) = (
                Answer::of(theirs, &dry, &object),
                Answer::of(ours, &dry, &object),
            );
            one.compare(
                &two,
                &format!("{plural}.{group}/{name} object {number}"),
                found,
            );
            tried += 1;
        }
    }
    tried
}

/// An empty object, a full one, and some with something wrong.
fn objects(schema: &Value) -> Vec<Value> {
    let full = sample(schema, 0);
    let mut objects = vec![json!({}), json!({"spec": {}}), full.clone()];
    let mut places = Vec::new();
    leaves(&full, &mut Vec::new(), &mut places);
    let wrong = [
        Value::Null,
        json!(-7),
        json!("\u{e4} odd"),
        json!([{}]),
        json!({"odd": 1}),
        json!(1.5),
    ];
    // Spread over the object, a different one each time.
    let step = (places.len() / wrong.len()).max(1);
    for (place, wrong) in places.iter().step_by(step).zip(wrong) {
        let mut object = full.clone();
        if let Some(value) = object.pointer_mut(place) {
            *value = wrong;
        }
        objects.push(object);
    }
    objects
}

fn leaves(value: &Value, path: &mut Vec<String>, places: &mut Vec<String>) {
    match value {
        Value::Object(members) if !members.is_empty() => {
            for (name, member) in members {
                path.push(name.replace('~', "~0").replace('/', "~1"));
                leaves(member, path, places);
                path.pop();
            }
        }
        Value::Array(items) if !items.is_empty() => {
            path.push("0".to_owned());
            leaves(&items[0], path, places);
            path.pop();
        }
        _ => places.push(format!("/{}", path.join("/"))),
    }
}

/// A value as a schema describes it, as far as that can be told: what it gets wrong, both servers refuse.
fn sample(schema: &Value, depth: usize) -> Value {
    if let Some(first) = schema["enum"].as_array().and_then(|list| list.first()) {
        return first.clone();
    }
    if let Some(default) = schema.get("default") {
        return default.clone();
    }
    let number = |name: &str| schema[name].as_i64();
    match schema["type"].as_str() {
        Some("object") => {
            let mut members = Map::new();
            // Deep schemas hold themselves again and again.
            if depth < 7 {
                for (name, property) in schema["properties"].as_object().into_iter().flatten() {
                    let is_meta = depth == 0
                        && matches!(name.as_str(), "apiVersion" | "kind" | "metadata" | "status");
                    if !is_meta {
                        members.insert(name.clone(), sample(property, depth + 1));
                    }
                }
                if schema["additionalProperties"].is_object() {
                    members.insert(
                        "key".to_owned(),
                        sample(&schema["additionalProperties"], depth + 1),
                    );
                }
            }
            Value::Object(members)
        }
        Some("array") => {
            let count = number("minItems").unwrap_or(1).clamp(1, 3);
            (0..count)
                .map(|_| sample(&schema["items"], depth + 1))
                .collect()
        }
        Some("integer" | "number") => json!(number("minimum").unwrap_or(1).max(1)),
        Some("boolean") => json!(true),
        Some("string") => {
            let length = number("minLength").unwrap_or(0).max(1);
            json!(match schema["format"].as_str() {
                Some("date-time") => "2024-01-01T00:00:00Z".to_owned(),
                Some("duration") => "1h".to_owned(),
                _ => "a".repeat(usize::try_from(length).unwrap_or(1)),
            })
        }
        _ => json!(1),
    }
}
