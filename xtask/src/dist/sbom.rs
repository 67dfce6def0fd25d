//! What is in the binary, as CycloneDX 1.5 in JSON, from what cargo resolved.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::workspace;

/// The list for a target.
pub(super) fn write(target: &str) -> Result<String> {
    let mut metadata = workspace::cargo();
    metadata.args(["metadata", "--format-version=1", "--locked"]);
    metadata.args(["--filter-platform", target]);
    let metadata: Value = serde_json::from_str(&super::output(&mut metadata)?)?;
    Ok(format!("{:#}\n", of(&metadata, "steersman")?))
}

/// The list of what a package of `cargo metadata` is built from. What only its tests need is not in the binary.
fn of(metadata: &Value, root: &str) -> Result<Value> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let packages: BTreeMap<String, Value> = list(&metadata["packages"])
        .into_iter()
        .map(|package| (text(&package["id"]), package))
        .collect();
    let mut needs: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for node in list(&metadata["resolve"]["nodes"]) {
        let is_built_in = |dependency: &Value| {
            let kinds = list(&dependency["dep_kinds"]);
            kinds.iter().any(|kind| kind["kind"] != "dev")
        };
        let needed = list(&node["deps"]);
        let needed = needed.iter().filter(|dependency| is_built_in(dependency));
        needs.insert(
            text(&node["id"]),
            needed.map(|dependency| text(&dependency["pkg"])).collect(),
        );
    }
    let root = packages
        .iter()
        .find(|(_, package)| package["name"] == root)
        .map(|(id, _)| id.clone())
        .with_context(|| format!("cargo knows no package {root}"))?;
    let mut reached = BTreeSet::from([root.clone()]);
    let mut open = vec![root.clone()];
    while let Some(id) = open.pop() {
        for next in needs.get(&id).into_iter().flatten() {
            if reached.insert(next.clone()) {
                open.push(next.clone());
            }
        }
    }
    let component = |id: &String, kind: &str| {
        let package = packages.get(id).cloned().unwrap_or_default();
        let mut component = json!({
            "type": kind,
            "bom-ref": purl(&package),
            "name": package["name"],
            "version": package["version"],
            "purl": purl(&package),
        });
        if let Some(license) = package["license"].as_str() {
            component["licenses"] = json!([{"expression": license.replace('/', " OR ")}]);
        }
        component
    };
    let reference = |id: &String| packages.get(id).map(purl).unwrap_or_default();
    let mut components: Vec<Value> = reached
        .iter()
        .filter(|id| **id != root)
        .map(|id| component(id, "library"))
        .collect();
    components.sort_by_key(|one| one["bom-ref"].to_string());
    let mut dependencies: Vec<Value> = reached
        .iter()
        .map(|id| {
            let on: BTreeSet<String> = needs.get(id).into_iter().flatten().map(reference).collect();
            json!({"ref": reference(id), "dependsOn": on})
        })
        .collect();
    dependencies.sort_by_key(|one| one["ref"].to_string());
    Ok(json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": component(&root, "application")},
        "components": components,
        "dependencies": dependencies,
    }))
}

/// The address of a package; those of this repository are said to be so.
fn purl(package: &Value) -> String {
    let (name, version) = (
        package["name"].as_str().unwrap_or_default(),
        package["version"].as_str().unwrap_or_default(),
    );
    match package["source"].is_null() {
        true => format!(
            "pkg:cargo/{name}@{version}?vcs_url=git%2Bhttps://github.com/steersman-dev/steersman"
        ),
        false => format!("pkg:cargo/{name}@{version}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_only_tests_need_is_left_out() {
        let package = |name: &str, source: Value| json!({"id": name, "name": name, "version": "1.0.0", "license": "MIT/Apache-2.0", "source": source});
        let needs = |on: &str, kind: Value| json!({"pkg": on, "dep_kinds": [{"kind": kind}]});
        let metadata = json!({
            "packages": [
                package("tool", Value::Null), package("used", json!("registry")),
                package("below", json!("registry")), package("tested", json!("registry")),
            ],
            "resolve": {"nodes": [
                {"id": "tool", "deps": [needs("used", Value::Null), needs("tested", json!("dev"))]},
                {"id": "used", "deps": [needs("below", json!("build"))]},
                {"id": "below", "deps": []}, {"id": "tested", "deps": []},
            ]},
        });
        let bom = of(&metadata, "tool").unwrap();
        let names: Vec<&str> = bom["components"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| one["name"].as_str().unwrap())
            .collect();
        assert_eq!(names, ["below", "used"]);
        assert_eq!(
            bom["components"][0]["licenses"][0]["expression"],
            "MIT OR Apache-2.0"
        );
        let own = &bom["metadata"]["component"];
        assert_eq!(
            (&own["type"], &own["name"]),
            (&json!("application"), &json!("tool"))
        );
        let of_tool = bom["dependencies"].as_array().unwrap();
        let of_tool = of_tool
            .iter()
            .find(|one| one["ref"] == own["bom-ref"])
            .unwrap();
        assert_eq!(of_tool["dependsOn"], json!(["pkg:cargo/used@1.0.0"]));
        assert!(of(&metadata, "nobody").is_err());
    }

    #[test]
    fn our_own_list_is_whole() {
        let bom: Value =
            serde_json::from_str(&write("x86_64-unknown-linux-musl").unwrap()).unwrap();
        let components = bom["components"].as_array().unwrap();
        let has = |name: &str| components.iter().any(|one| one["name"] == name);
        assert!(has("steersman-controllers") && has("tokio") && has("ring"));
        assert!(
            !has("real-tests") && !has("proptest"),
            "tests are not in the binary"
        );
        let mut references: Vec<&str> = components
            .iter()
            .filter_map(|one| one["bom-ref"].as_str())
            .collect();
        let all = references.len();
        references.dedup();
        assert_eq!(references.len(), all, "each once");
        assert!(components.iter().all(|one| one["licenses"].is_array()));
    }
}
