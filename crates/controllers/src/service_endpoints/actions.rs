//! What services users write: those who publish them share it.

use api::Rng;
use serde_json::{Value, json};

use crate::oracle::Draw;

/// The label by which a service selects: pods of a workload, or of a version of whichever.
pub fn draw_selector(rng: &Rng) -> Value {
    match rng.below(3) {
        0 => json!({"version": rng.below(2).to_string()}),
        _ => json!({"app": format!("w{}", rng.below(3))}),
    }
}

/// By number and by name; some pods lack the names.
pub fn draw_ports(rng: &Rng) -> Vec<Value> {
    let by_number = json!({"name": "http", "port": 80, "targetPort": 8080});
    let by_name = json!({"name": "web", "port": 81, "targetPort": "web"});
    let metrics = json!({"name": "metrics", "port": 82, "targetPort": "metrics"});
    let of_another_protocol =
        json!({"name": "udp", "port": 53, "protocol": "UDP", "targetPort": "web"});
    match rng.below(5) {
        0 => vec![by_number],
        1 => vec![json!({"port": 80, "targetPort": "web"})],
        2 => vec![by_number, by_name],
        3 => vec![by_name, metrics, of_another_protocol],
        _ => vec![metrics, by_number],
    }
}

/// A service of any type.
pub fn draw_service(draw: &Draw<'_>) -> Value {
    let rng = draw.rng;
    let mut spec = json!({"selector": draw_selector(rng), "ports": draw_ports(rng)});
    match rng.below(6) {
        0 => spec["type"] = json!("NodePort"),
        1 => spec["type"] = json!("LoadBalancer"),
        2 => spec["clusterIP"] = json!("None"),
        3 => {
            spec["clusterIP"] = json!("None");
            spec["ports"] = json!([]);
        }
        _ => {}
    }
    if rng.chance(4) {
        spec["publishNotReadyAddresses"] = json!(true);
    }
    if draw.is_dual_stack {
        draw_families(rng, &mut spec);
    }
    let labels = match rng.chance(2) {
        true => json!({"team": "a"}),
        false => json!({}),
    };
    json!({"metadata": {"labels": labels}, "spec": spec})
}

/// Of both families, either of them first, or of one.
fn draw_families(rng: &Rng, spec: &mut Value) {
    let (policy, families) = match rng.below(6) {
        0 => return,
        1 | 2 => ("PreferDualStack", json!(["IPv4", "IPv6"])),
        3 | 4 => ("RequireDualStack", json!(["IPv6", "IPv4"])),
        _ => ("SingleStack", json!(["IPv6"])),
    };
    spec["ipFamilyPolicy"] = json!(policy);
    spec["ipFamilies"] = families;
}

/// One family more, or less.
pub fn draw_policy(rng: &Rng) -> &'static str {
    ["SingleStack", "PreferDualStack", "RequireDualStack"][rng.below(3)]
}

/// The first is the one that StatefulSets name: it gives their pods names below its own.
pub fn name_of(draw: &Draw<'_>) -> String {
    match draw.number {
        1 => "none".to_owned(),
        number => format!("service-{number}"),
    }
}

/// A list, or the pairs of a map, in place of what is there: a patch would add to it.
pub fn replaced(value: Value) -> Value {
    let replaces = json!({"$patch": "replace"});
    match value {
        Value::Array(mut items) => {
            items.insert(0, replaces);
            Value::Array(items)
        }
        Value::Object(mut pairs) => {
            pairs.insert("$patch".to_owned(), json!("replace"));
            Value::Object(pairs)
        }
        other => other,
    }
}
