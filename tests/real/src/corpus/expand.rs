//! From the steps of a scenario to requests.

use anyhow::{Context, Result, bail};
use serde_json::{Map, Value, json};

use super::{Request, Sent};

type Step = Map<String, Value>;

const METHODS: [&str; 5] = ["GET", "POST", "PUT", "PATCH", "DELETE"];
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
const METADATA: &str =
    "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io,application/json";
const METADATA_LIST: &str =
    "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io,application/json";

/// The requests of one step: `METHOD path: body`, `variants`, `each`, `webhooks` or `tour`.
pub(super) fn step(step: &Step) -> Result<Vec<Request>> {
    if step.contains_key("variants") {
        variants(step)
    } else if step.contains_key("each") {
        each(step)
    } else if step.contains_key("tour") {
        tour(step)
    } else if step.contains_key("webhooks") {
        webhooks(step)
    } else {
        let call = step
            .keys()
            .find(|key| METHODS.contains(&key.split(' ').next().unwrap_or_default()))
            .context("a step has a key like `POST v1:pods`")?;
        Ok(vec![request(call, step.get(call), step)?])
    }
}

/// `variants: METHOD path`: a good body (`base`), sent once for each of `with`, a map of JSON
/// pointers to what is put there (null takes it away).
fn variants(step: &Step) -> Result<Vec<Request>> {
    let call = text(step, "variants")?;
    let base = step.get("base").context("variants need a base")?;
    let all = step.get("with").and_then(Value::as_array);
    let mut requests = Vec::new();
    for (index, with) in all
        .context("variants need a list: with")?
        .iter()
        .enumerate()
    {
        let mut body = base.clone();
        for (pointer, value) in with.as_object().context("a variant is a map")? {
            put(&mut body, pointer, value)
                .with_context(|| format!("{pointer} in variant {index}"))?;
        }
        let mut request = request(call, Some(&body), step)?;
        request.title = format!("{call} with {with}");
        requests.push(request);
    }
    Ok(requests)
}

/// `each: METHOD path`: sent once with each of `bodies`; a body that is a text goes as it is.
fn each(step: &Step) -> Result<Vec<Request>> {
    let call = text(step, "each")?;
    let bodies = step.get("bodies").and_then(Value::as_array);
    let bodies = bodies.context("each needs a list: bodies")?;
    let send = |body: &Value| {
        let mut request = request(call, Some(body), step)?;
        request.title = format!("{call} {body}");
        Ok(request)
    };
    bodies.iter().map(send).collect()
}

fn request(call: &str, body: Option<&Value>, step: &Step) -> Result<Request> {
    let (method, path) = call.split_once(' ').context("a request is `METHOD path`")?;
    let option = |name: &str| step.get(name).and_then(Value::as_str);
    let keep = step.get("keep").and_then(Value::as_object);
    let headers = step.get("headers").and_then(Value::as_object);
    let pairs = |map: Option<&Step>| {
        let pairs = map.into_iter().flatten();
        pairs
            .map(|(key, value)| (key.clone(), value.as_str().unwrap_or_default().to_owned()))
            .collect()
    };
    Ok(Request {
        title: option("title").unwrap_or(call).to_owned(),
        method: method.to_owned(),
        path: full_path(path),
        content_type: content_type(option("type").unwrap_or("json-body")).to_owned(),
        accept: accept(option("accept").unwrap_or("json")).to_owned(),
        headers: pairs(headers),
        body: match body {
            None | Some(Value::Null) => Sent::Nothing,
            Some(Value::String(text)) => Sent::Text(text.clone()),
            Some(body) => Sent::Json(body.clone()),
        },
        keep: pairs(keep),
        until: step
            .get("until")
            .and_then(Value::as_object)
            .map(|until| until.clone().into_iter().collect())
            .unwrap_or_default(),
    })
}

/// `v1:pods/a` and `apps/v1:deployments` are short for paths in the scenario's namespace.
fn full_path(path: &str) -> String {
    match path.split_once(':') {
        _ if path.starts_with('/') => path.to_owned(),
        Some(("v1", rest)) => format!("/api/v1/namespaces/$NS/{rest}"),
        Some((group, rest)) => format!("/apis/{group}/namespaces/$NS/{rest}"),
        None => path.to_owned(),
    }
}

fn content_type(short: &str) -> &str {
    match short {
        "json-body" => "application/json",
        "merge" => "application/merge-patch+json",
        "strategic" => "application/strategic-merge-patch+json",
        "json" => "application/json-patch+json",
        "apply" => "application/apply-patch+yaml",
        other => other,
    }
}

fn accept(short: &str) -> &str {
    match short {
        "json" => "application/json",
        "table" => TABLE,
        "metadata" => METADATA,
        "metadata-list" => METADATA_LIST,
        other => other,
    }
}

/// `tour: path` with an `object`: everything that can be asked of any kind, from creation to
/// deletion. `change` is a merge patch that its strategy takes, `status` one for its status.
fn tour(step: &Step) -> Result<Vec<Request>> {
    let collection = text(step, "tour")?;
    let object = step.get("object").context("a tour needs an object")?;
    let name = object.pointer("/metadata/name").and_then(Value::as_str);
    let name = name.context("the object of a tour has a name")?;
    let one = format!("{collection}/{name}");
    let mut requests = Vec::new();
    let mut add = |method: &str, path: &str, body: Value, options: Value| -> Result<()> {
        let mut options = options.as_object().cloned().unwrap_or_default();
        let call = format!("{method} {path}");
        let title = match (options.get("accept"), options.get("type")) {
            (Some(what), _) | (_, Some(what)) => {
                format!("{call} {}", what.as_str().unwrap_or_default())
            }
            _ => call.clone(),
        };
        options.insert("title".to_owned(), title.into());
        requests.push(request(&call, Some(&body), &options)?);
        Ok(())
    };
    let none = || json!({});
    let typed = |kind: &str| json!({"type": kind});
    let apply_body = json!({
        "apiVersion": object["apiVersion"], "kind": object["kind"],
        "metadata": {"name": name, "labels": {"applied": "yes"}},
    });
    add("GET", &one, Value::Null, none())?;
    add(
        "POST",
        &format!("{collection}?dryRun=All"),
        object.clone(),
        none(),
    )?;
    add("POST", collection, object.clone(), none())?;
    add("POST", collection, object.clone(), none())?;
    add("GET", &one, Value::Null, json!({"accept": "table"}))?;
    add("GET", &one, Value::Null, json!({"accept": "metadata"}))?;
    add(
        "GET",
        &format!("{collection}?fieldSelector=metadata.name={name}"),
        Value::Null,
        none(),
    )?;
    add(
        "GET",
        &format!("{collection}?fieldSelector=metadata.name={name}&limit=1"),
        Value::Null,
        json!({"accept": "table"}),
    )?;
    add(
        "GET",
        &format!("{collection}?fieldSelector=metadata.name={name}"),
        Value::Null,
        json!({"accept": "metadata-list"}),
    )?;
    add(
        "GET",
        &format!("{collection}?fieldSelector=spec.nothing=x"),
        Value::Null,
        none(),
    )?;
    add("PATCH", &one, json!({}), typed("merge"))?;
    add(
        "PATCH",
        &one,
        json!({"metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}}}),
        typed("merge"),
    )?;
    add(
        "PATCH",
        &one,
        json!({"metadata": {"labels": {"a": null, "e": "f"}}}),
        typed("strategic"),
    )?;
    add(
        "PATCH",
        &one,
        json!([{"op": "add", "path": "/metadata/labels/g", "value": "h"}]),
        typed("json"),
    )?;
    add(
        "PATCH",
        &format!("{one}?fieldManager=me"),
        apply_body.clone(),
        typed("apply"),
    )?;
    add(
        "PATCH",
        &format!("{one}?fieldManager=me"),
        apply_body,
        typed("apply"),
    )?;
    add(
        "PATCH",
        &one,
        json!({"nonsense": 1, "metadata": {"resourceVersion": "1"}}),
        typed("merge"),
    )?;
    if let Some(change) = step.get("change") {
        add("PATCH", &one, change.clone(), typed("merge"))?;
    }
    add("PUT", &one, object.clone(), none())?;
    if let Some(status) = step.get("status") {
        add(
            "PATCH",
            &format!("{one}/status"),
            json!({"status": status}),
            typed("merge"),
        )?;
        add("PATCH", &one, json!({"status": null}), typed("merge"))?;
    }
    add("GET", &format!("{one}/status"), Value::Null, none())?;
    add("GET", &format!("{one}/scale"), Value::Null, none())?;
    add("DELETE", &format!("{one}?dryRun=All"), Value::Null, none())?;
    add(
        "DELETE",
        &one,
        json!({"preconditions": {"uid": "other"}}),
        none(),
    )?;
    add(
        "PATCH",
        &one,
        json!({"metadata": {"finalizers": ["example.com/keep"]}}),
        typed("merge"),
    )?;
    add(
        "DELETE",
        &one,
        json!({"propagationPolicy": "Background"}),
        none(),
    )?;
    add(
        "PATCH",
        &one,
        json!({"metadata": {"finalizers": null}}),
        typed("merge"),
    )?;
    add("GET", &one, Value::Null, none())?;
    add("POST", collection, object.clone(), none())?;
    add(
        "DELETE",
        &format!("{collection}?fieldSelector=metadata.name={name}"),
        Value::Null,
        none(),
    )?;
    add(
        "DELETE",
        &format!("{one}?gracePeriodSeconds=0"),
        Value::Null,
        none(),
    )?;
    Ok(requests)
}

/// `webhooks: validating` or `mutating`: a configuration with these `hooks`, each with the `mode` of
/// `tests/real/src/stranger.rs` and whatever else it is to have; once it is in effect come the requests of `ask`, and then it
/// is deleted. A hook for Secrets tells when it is in effect.
fn webhooks(step: &Step) -> Result<Vec<Request>> {
    let which = text(step, "webhooks")?;
    let hooks = step.get("hooks").and_then(Value::as_array);
    let hooks = hooks.context("webhooks need a list: hooks")?;
    let sign = json!({"mode": "deny-code", "name": "sign.example.com"});
    let mut configured = vec![hook(&sign, "secrets")?];
    for given in hooks {
        configured.push(hook(given, "configmaps")?);
    }
    let path = format!("/apis/admissionregistration.k8s.io/v1/{which}webhookconfigurations");
    let body = json!({"metadata": {"name": "corpus"}, "webhooks": configured});
    let modes: Vec<&str> = hooks
        .iter()
        .filter_map(|hook| hook["mode"].as_str())
        .collect();
    let name = format!("{which} {}", modes.join(" "));
    let titled = |title: String| Map::from_iter([("title".to_owned(), Value::from(title))]);
    let sign = |code: u16| {
        let mut options = titled(format!("{name}: until Secrets are answered {code}"));
        options.insert("until".to_owned(), json!({"/code": code}));
        let secret = json!({"metadata": {"name": "sign"}});
        request("POST v1:secrets?dryRun=All", Some(&secret), &options)
    };
    let mut requests = vec![
        request(
            &format!("POST {path}"),
            Some(&body),
            &titled(format!("{name}: configure")),
        )?,
        sign(409)?,
    ];
    let asked = step.get("ask").and_then(Value::as_array);
    for asked in asked.context("webhooks need a list: ask")? {
        let asked = asked.as_object().context("what is asked is a step")?;
        for mut request in self::step(asked)? {
            request.title = format!("{name}: {}", request.title);
            requests.push(request);
        }
    }
    requests.push(request(
        &format!("DELETE {path}/corpus"),
        None,
        &titled(format!("{name}: delete")),
    )?);
    requests.push(sign(201)?);
    Ok(requests)
}

/// A webhook for what is created in the scenario's namespace, if it does not say otherwise.
fn hook(given: &Value, resource: &str) -> Result<Value> {
    let mode = given["mode"].as_str().context("a hook has a mode")?;
    let mut hook = json!({
        "name": format!("{mode}.example.com"), "sideEffects": "None", "admissionReviewVersions": ["v1"],
        "timeoutSeconds": 5,
        "clientConfig": {"url": format!("$STRANGER/{mode}"), "caBundle": "$TRUSTED"},
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "$NS"}},
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": [resource]}],
    });
    let own = given.as_object().into_iter().flatten();
    for (member, value) in own.filter(|(member, _)| *member != "mode") {
        hook[member] = value.clone();
    }
    Ok(hook)
}

fn text<'a>(step: &'a Step, name: &str) -> Result<&'a str> {
    step.get(name)
        .and_then(Value::as_str)
        .with_context(|| format!("{name} must be a text"))
}

/// Puts a value at a JSON pointer and makes the objects on the way; `-` appends to a list.
fn put(body: &mut Value, pointer: &str, value: &Value) -> Result<()> {
    let mut place = body;
    let steps: Vec<String> = pointer
        .strip_prefix('/')
        .context("a pointer begins with /")?
        .split('/')
        .map(|step| step.replace("~1", "/").replace("~0", "~"))
        .collect();
    let (last, way) = steps.split_last().context("an empty pointer")?;
    for step in way {
        if place.is_null() {
            *place = json!({});
        }
        place = match place {
            Value::Object(map) => map.entry(step.clone()).or_insert(Value::Null),
            Value::Array(list) => step
                .parse()
                .ok()
                .and_then(|index: usize| list.get_mut(index))
                .context("no such item")?,
            _ => bail!("{step} lies in a plain value"),
        };
    }
    if place.is_null() {
        *place = json!({});
    }
    match place {
        Value::Object(map) if value.is_null() => {
            map.remove(last);
        }
        Value::Object(map) => {
            map.insert(last.clone(), value.clone());
        }
        Value::Array(list) if last == "-" => list.push(value.clone()),
        Value::Array(list) => {
            let item = last
                .parse()
                .ok()
                .and_then(|index: usize| list.get_mut(index));
            *item.context("no such item")? = value.clone();
        }
        _ => bail!("{last} lies in a plain value"),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variants_put_values_and_take_them_away() {
        let step_of = json!({
            "variants": "POST v1:pods", "base": {"spec": {"list": [{"a": 1}]}},
            "with": [{"/spec/list/0/a": 2, "/metadata/name": "x"}, {"/spec": null}, {"/spec/list/-": 3}],
        });
        let requests = step(step_of.as_object().unwrap()).unwrap();
        let bodies: Vec<String> = requests
            .iter()
            .map(|request| match &request.body {
                Sent::Json(body) => body.to_string(),
                other => format!("{other:?}"),
            })
            .collect();
        assert_eq!(
            bodies,
            [
                r#"{"metadata":{"name":"x"},"spec":{"list":[{"a":2}]}}"#,
                "{}",
                r#"{"spec":{"list":[{"a":1},3]}}"#
            ]
        );
        assert_eq!(requests[0].path, "/api/v1/namespaces/$NS/pods");
    }

    #[test]
    fn a_step_without_a_request_is_refused() {
        let nothing = json!({"type": "merge"});
        assert!(step(nothing.as_object().unwrap()).is_err());
    }
}
