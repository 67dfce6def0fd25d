use super::*;
use crate::kinds;

fn manager(name: &str, operation: Operation) -> Manager {
    Manager {
        name: name.into(),
        operation,
        api_version: "apps/v1".into(),
        subresource: String::new(),
        now: "2024-01-01T00:00:00Z".into(),
    }
}

fn kind() -> &'static Kind {
    kinds::find("apps", "Deployment").unwrap()
}

fn applied(live: Option<&Value>, config: Value, name: &str, force: bool) -> Result<Value, Status> {
    apply(
        kind(),
        live,
        &config,
        &manager(name, Operation::Apply),
        force,
        &[],
        None,
    )
}

fn fields(value: &Value, name: &str) -> Value {
    let list = value["metadata"]["managedFields"].as_array().unwrap();
    let entry = list.iter().find(|entry| entry["manager"] == name);
    let text = entry.and_then(|entry| entry["fieldsV1"].as_str());
    text.map_or(Value::Null, |text| serde_json::from_str(text).unwrap())
}

fn config(replicas: i64, image: &str) -> Value {
    json!({
        "metadata": {"name": "web", "labels": {"a": "1"}},
        "spec": {"replicas": replicas, "template": {"spec": {"containers": [{"name": "c", "image": image}]}}},
    })
}

#[test]
fn the_applier_owns_what_it_sets() {
    let object = applied(None, config(1, "i"), "me", false).unwrap();
    assert_eq!(
        fields(&object, "me"),
        json!({
            "f:metadata": {"f:labels": {"f:a": {}}},
            "f:spec": {"f:replicas": {}, "f:template": {"f:spec": {"f:containers": {"k:{\"name\":\"c\"}": {".": {}, "f:image": {}, "f:name": {}}}}}},
        })
    );
}

#[test]
fn applying_again_changes_nothing() {
    let object = applied(None, config(1, "i"), "me", false).unwrap();
    let mut later = manager("me", Operation::Apply);
    later.now = "2030-01-01T00:00:00Z".into();
    assert_eq!(
        apply(
            kind(),
            Some(&object),
            &config(1, "i"),
            &later,
            false,
            &[],
            None
        )
        .unwrap(),
        object
    );
}

/// UPSTREAM: an entry that comes from an apply which changed nothing has no time.
#[test]
fn only_an_apply_that_changes_something_has_a_time() {
    let object = applied(None, config(1, "i"), "me", false).unwrap();
    let more = applied(Some(&object), config(1, "i"), "other", false).unwrap();
    let entry = |name: &str| {
        let list = more["metadata"]["managedFields"].as_array().unwrap();
        list.iter().find(|entry| entry["manager"] == name).unwrap()
    };
    assert_eq!(entry("me")["time"], "2024-01-01T00:00:00Z");
    assert_eq!(entry("other").get("time"), None);
}

/// As when kubectl has moved the fields of its last client-side apply to its first one on the server.
#[test]
fn an_applier_that_gives_up_all_metadata_leaves_the_name() {
    let mut with_labels = config(1, "i");
    with_labels["metadata"]["namespace"] = json!("ns");
    let mut object = applied(None, with_labels, "me", false).unwrap();
    object["metadata"]["uid"] = json!("u");
    let mut without = config(1, "i");
    without["metadata"] = json!({"name": "web", "namespace": "ns"});
    let less = applied(Some(&object), without, "me", false).unwrap();
    let mut metadata = less["metadata"].clone();
    metadata.as_object_mut().unwrap().remove("managedFields");
    assert_eq!(
        metadata,
        json!({"name": "web", "namespace": "ns", "uid": "u"})
    );
}

#[test]
fn what_is_no_longer_applied_goes_unless_another_owns_it() {
    let object = applied(None, config(1, "i"), "me", false).unwrap();
    let both = applied(
        Some(&object),
        json!({"spec": {"replicas": 1}}),
        "other",
        false,
    )
    .unwrap();
    let less = applied(Some(&both), json!({"spec": {"paused": true}}), "me", false).unwrap();
    assert_eq!(less["spec"]["replicas"], 1);
    assert!(less["metadata"].get("labels").is_none());
    assert!(
        less["spec"]["template"]["spec"]["containers"]
            .as_array()
            .is_none_or(|list| list.is_empty())
    );
}

#[test]
fn a_changed_value_of_another_owner_is_a_conflict() {
    let object = applied(None, config(1, "i"), "me", false).unwrap();
    let status = applied(
        Some(&object),
        json!({"spec": {"replicas": 2}}),
        "other",
        false,
    )
    .unwrap_err();
    assert_eq!(
        status.message,
        "Apply failed with 1 conflict: conflict with \"me\": .spec.replicas"
    );
    let forced = applied(
        Some(&object),
        json!({"spec": {"replicas": 2}}),
        "other",
        true,
    )
    .unwrap();
    assert_eq!(forced["spec"]["replicas"], 2);
    assert!(fields(&forced, "me")["f:spec"].get("f:replicas").is_none());
}

#[test]
fn an_update_takes_the_fields_that_it_changes() {
    let object = applied(None, config(1, "i"), "me", false).unwrap();
    let mut new = object.clone();
    new["spec"]["replicas"] = json!(5);
    update(
        kind(),
        &mut new,
        Some(&object),
        &manager("kubectl", Operation::Update),
        &[],
    );
    assert_eq!(
        fields(&new, "kubectl"),
        json!({"f:spec": {"f:replicas": {}}})
    );
    assert!(fields(&new, "me")["f:spec"].get("f:replicas").is_none());
    let mut gone = new.clone();
    gone["spec"].as_object_mut().unwrap().remove("replicas");
    update(
        kind(),
        &mut gone,
        Some(&new),
        &manager("kubectl", Operation::Update),
        &[],
    );
    assert_eq!(fields(&gone, "kubectl"), Value::Null);
}

#[test]
fn a_created_object_is_owned_by_its_creator() {
    let mut new = config(1, "i");
    update(
        kind(),
        &mut new,
        None,
        &manager("kubectl", Operation::Update),
        &[],
    );
    assert_eq!(
        fields(&new, "kubectl")["f:metadata"],
        json!({"f:labels": {".": {}, "f:a": {}}})
    );
}

#[test]
fn clearing_stops_the_tracking() {
    let object = applied(None, config(1, "i"), "me", false).unwrap();
    let mut new = object.clone();
    new["metadata"]["managedFields"] = json!([{}]);
    update(
        kind(),
        &mut new,
        Some(&object),
        &manager("kubectl", Operation::Update),
        &[],
    );
    assert!(new["metadata"].get("managedFields").is_none());
}

#[test]
fn list_items_are_merged_by_their_keys_in_the_applied_order() {
    let list = |names: &[&str]| {
        let items: Vec<Value> = names
            .iter()
            .map(|name| json!({"name": name, "image": "i"}))
            .collect();
        json!({"spec": {"template": {"spec": {"containers": items}}}})
    };
    let object = applied(None, list(&["a", "b"]), "me", false).unwrap();
    let both = applied(Some(&object), list(&["c", "b"]), "other", false).unwrap();
    let names: Vec<&str> = both["spec"]["template"]["spec"]["containers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|c| c["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["a", "c", "b"]);
}

#[test]
fn a_list_item_that_is_no_longer_applied_goes_as_a_whole() {
    let with = json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "i", "env": [{"name": "A", "value": "1"}]}]}}}});
    let without =
        json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "i"}]}}}});
    let object = applied(None, with, "me", false).unwrap();
    let less = applied(Some(&object), without, "me", false).unwrap();
    assert!(
        less["spec"]["template"]["spec"]["containers"][0]
            .get("env")
            .is_none(),
        "{less}"
    );
}

/// One after the other, each of them would be merged into all those before.
#[test]
fn the_fields_of_thousands_of_managers_are_merged_at_once() {
    const COUNT: usize = 30_000;
    let entry = |number: usize, operation: &str| {
        json!({"manager": format!("m{number:05}"), "operation": operation, "apiVersion": "apps/v1", "fieldsType": "FieldsV1",
            "fieldsV1": {"f:spec": {format!("f:k{number:05}"): {}}}})
    };
    let object = applied(None, config(1, "i"), "me", false).unwrap();
    let mut new = object.clone();
    new["metadata"]["managedFields"] = (0..COUNT).map(|number| entry(number, "Update")).collect();
    let updater = manager("kubectl", Operation::Update);
    update(kind(), &mut new, Some(&object), &updater, &[]);
    let entries = new["metadata"]["managedFields"].as_array().unwrap();
    assert_eq!(entries.len(), MAX_UPDATE_MANAGERS);
    let ancient = fields(&new, ANCIENT);
    let count = COUNT - MAX_UPDATE_MANAGERS + 1;
    assert_eq!(ancient["f:spec"].as_object().unwrap().len(), count);
    // Of what thousands apply, one's own is looked for among all of it.
    let mut entries: Vec<Value> = (0..COUNT).map(|number| entry(number, "Apply")).collect();
    entries.extend(
        object["metadata"]["managedFields"]
            .as_array()
            .unwrap()
            .clone(),
    );
    let mut live = object;
    live["metadata"]["managedFields"] = Value::Array(entries);
    let less = applied(
        Some(&live),
        json!({"metadata": {"name": "web"}}),
        "me",
        false,
    )
    .unwrap();
    assert_eq!(less["spec"].get("replicas"), None);
    assert_eq!(
        less["metadata"]["managedFields"].as_array().unwrap().len(),
        COUNT
    );
}
