//! What the downward API says of a pod and its containers.

use serde_json::Value;

/// A field of the pod, as the downward API names it.
pub(super) fn field(pod: &Value, path: &str) -> String {
    if let Some((map, key)) = path
        .strip_suffix("']")
        .and_then(|path| path.split_once("['"))
    {
        let map = map.rsplit('.').next().unwrap_or_default();
        return text(&pod["metadata"][map][key]).to_owned();
    }
    let pairs = |map: &Value| {
        let entries = map.as_object().into_iter().flatten();
        // Values are quoted, which strings of JSON are in the same way.
        let lines = entries.map(|(key, value)| format!("{key}={value}"));
        lines.collect::<Vec<String>>().join("\n")
    };
    match path {
        "metadata.labels" => pairs(&pod["metadata"]["labels"]),
        "metadata.annotations" => pairs(&pod["metadata"]["annotations"]),
        "status.podIPs" | "status.hostIPs" => {
            let list = path.trim_start_matches("status.");
            let addresses = pod["status"][list].as_array().into_iter().flatten();
            let addresses: Vec<&str> = addresses.map(|one| text(&one["ip"])).collect();
            addresses.join(",")
        }
        path => {
            let pointer = format!("/{}", path.replace('.', "/"));
            pod.pointer(&pointer)
                .map(text)
                .unwrap_or_default()
                .to_owned()
        }
    }
}

/// What a container asks for or may use, in units of the divisor, rounded up. A limit on what nodes always share is by
/// default all that the node has for pods.
pub(super) fn resource(container: &Value, reference: &Value, allocatable: &Value) -> String {
    let parse = |value: &Value| api::Quantity::parse(text(value)).ok();
    let milli = |value: &Value| parse(value).map_or(0, |amount| amount.milli_value());
    let (list, name) = text(&reference["resource"])
        .split_once('.')
        .unwrap_or_default();
    let asked = milli(&container["resources"][list][name]);
    let is_shared = matches!(name, "cpu" | "memory" | "ephemeral-storage");
    let asked = match asked {
        0 if list == "limits" && is_shared => milli(&allocatable[name]),
        asked => asked,
    };
    let divisor = match milli(&reference["divisor"]) {
        0 => 1000,
        divisor => divisor,
    };
    (asked / divisor + i64::from(asked % divisor > 0)).to_string()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn maps_are_lines_with_quoted_values() {
        let pod = json!({"metadata": {"labels": {"b": "2", "a": "say \"one\""}}});
        assert_eq!(
            field(&pod, "metadata.labels"),
            "a=\"say \\\"one\\\"\"\nb=\"2\""
        );
        assert_eq!(field(&pod, "metadata.labels['b']"), "2");
    }

    #[test]
    fn amounts_are_rounded_up_and_limits_fall_back_to_the_node() {
        let container =
            json!({"resources": {"requests": {"cpu": "250m"}, "limits": {"memory": "64Mi"}}});
        let node = json!({"cpu": "32", "memory": "256Gi", "example.com/gpu": "2"});
        let cases = [
            ("requests.cpu", "0", "1"),
            ("requests.cpu", "1m", "250"),
            ("limits.cpu", "0", "32"),
            ("limits.memory", "1Mi", "64"),
            ("requests.memory", "0", "0"),
            ("limits.example.com/gpu", "0", "0"),
        ];
        for (resource_name, divisor, expected) in cases {
            let reference = json!({"resource": resource_name, "divisor": divisor});
            assert_eq!(
                resource(&container, &reference, &node),
                expected,
                "{resource_name}"
            );
        }
    }
}
