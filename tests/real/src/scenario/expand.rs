//! Short forms in scenarios: a template written as `web:1` stands for a whole pod template.

use serde_json::{Value, json};

/// Completes an object of a scenario: `$NS` becomes the namespace, and a workload whose template is a
/// string `app:version` gets that template, with a selector for it where there is none.
pub(crate) fn expand(object: &Value, namespace: &str) -> Value {
    let mut object = substitute(object, namespace);
    let is_daemon = object["kind"] == "DaemonSet";
    let is_plain_selector = object["kind"] == "ReplicationController";
    let is_job = object["kind"] == "Job";
    let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) else {
        return object;
    };
    if let Some(short) = spec
        .get("template")
        .and_then(Value::as_str)
        .map(str::to_owned)
    {
        let (app, _) = short.split_once(':').unwrap_or((&short, ""));
        let mut template = template(&short);
        if is_daemon {
            // Scenarios share a cluster: each sees only its own nodes.
            template["spec"]["nodeSelector"] = json!({"scenario": namespace});
        }
        if is_job {
            template["spec"]["restartPolicy"] = json!("Never");
        }
        spec.insert("template".to_owned(), template);
        // The server gives a job its selector.
        if !is_job && !spec.contains_key("selector") {
            let labels = json!({"app": app});
            let selector = if is_plain_selector {
                labels
            } else {
                json!({"matchLabels": labels})
            };
            spec.insert("selector".to_owned(), selector);
        }
    }
    object
}

fn template(short: &str) -> Value {
    let (app, _) = short.split_once(':').unwrap_or((short, ""));
    json!({
        "metadata": {"labels": {"app": app}},
        "spec": {"containers": [{"name": "main", "image": format!("example.invalid/{short}")}]},
    })
}

/// `$NS` becomes the namespace, wherever it stands.
pub(crate) fn substitute(value: &Value, namespace: &str) -> Value {
    match value {
        Value::String(text) => Value::String(text.replace("$NS", namespace)),
        Value::Array(items) => items
            .iter()
            .map(|item| substitute(item, namespace))
            .collect(),
        Value::Object(fields) => fields
            .iter()
            .map(|(key, value)| (key.clone(), substitute(value, namespace)))
            .collect(),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_template_gets_labels_image_and_selector() {
        let short = json!({"kind": "Deployment", "spec": {"replicas": 2, "template": "web:1"}});
        let long = expand(&short, "n");
        assert_eq!(
            long["spec"]["selector"],
            json!({"matchLabels": {"app": "web"}})
        );
        assert_eq!(long["spec"]["template"]["metadata"]["labels"]["app"], "web");
        assert_eq!(
            long["spec"]["template"]["spec"]["containers"][0]["image"],
            "example.invalid/web:1"
        );
    }

    #[test]
    fn what_is_written_out_stays() {
        let long = json!({"kind": "ReplicaSet", "spec": {"selector": {}, "template": {"spec": {"x": "$NS"}}}});
        assert_eq!(
            expand(&long, "n")["spec"],
            json!({"selector": {}, "template": {"spec": {"x": "n"}}})
        );
    }
}
