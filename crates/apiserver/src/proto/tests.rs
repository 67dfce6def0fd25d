use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn corpus() -> Vec<(Vec<u8>, Value)> {
    let cases: Vec<Value> =
        serde_json::from_str(include_str!("../../testdata/protobuf.json")).unwrap();
    let body = |case: &Value| STANDARD.decode(case["protobuf"].as_str().unwrap()).unwrap();
    cases
        .iter()
        .map(|case| (body(case), case["json"].clone()))
        .collect()
}

/// Takes out what differs between two answers to the same dry run.
fn stable(object: &mut Value) {
    if let Some(metadata) = object["metadata"].as_object_mut() {
        for name in ["uid", "creationTimestamp", "managedFields"] {
            metadata.remove(name);
        }
    }
    // Protobuf does not carry the type of embedded objects; the strategy sets it.
    for claim in crate::fields::list_mut(object, "spec.volumeClaimTemplates")
        .into_iter()
        .flatten()
    {
        crate::fields::remove(claim, "apiVersion");
        crate::fields::remove(claim, "kind");
    }
    let mut text = object.to_string();
    for prefix in [
        "kube-api-access-",
        "controller-uid\":\"",
        "lastTransitionTime\":\"",
        "lastPhaseTransitionTime\":\"",
        "timeAdded\":\"",
    ] {
        let mut from = 0;
        while let Some(found) = text[from..].find(prefix) {
            from += found + prefix.len();
            let end = text[from..].find('"').unwrap();
            text.replace_range(from..from + end, "");
        }
    }
    *object = serde_json::from_str(&text).unwrap();
}

/// Objects that kube-apiserver 1.36 gave both as protobuf and as JSON.
#[test]
fn protobuf_says_the_same_as_json() {
    let cases = corpus();
    assert!(cases.len() > 20);
    for (body, mut expected) in cases {
        let (api_version, kind, object) = decode(&body).unwrap();
        let ty = type_of(&api_version, &kind).unwrap();
        let mut object = schema::decode(ty, object).unwrap();
        assert_eq!(object.unknown, [""; 0], "{kind}");
        stable(&mut object.object);
        stable(&mut expected);
        assert_eq!(object.object, expected, "{kind}");
    }
}

#[test]
fn options_of_any_group_are_known() {
    let mut body = MAGIC.to_vec();
    body.extend([0x0a, 24, 0x0a, 7]);
    body.extend(b"apps/v1");
    body.extend([0x12, 13]);
    body.extend(b"DeleteOptions");
    // gracePeriodSeconds: 5
    body.extend([0x12, 2, 0x08, 5]);
    let (version, kind, object) = decode(&body).unwrap();
    assert_eq!(
        (version.as_str(), kind.as_str()),
        ("apps/v1", "DeleteOptions")
    );
    assert_eq!(
        object,
        json!({"apiVersion": "apps/v1", "kind": "DeleteOptions", "gracePeriodSeconds": 5})
    );
}

#[test]
fn what_is_not_protobuf_is_refused() {
    assert!(decode(b"{}").unwrap_err().contains("k8s"));
    assert!(decode(b"k8s\0").unwrap_err().contains("no kind"));
    assert!(decode(b"k8s\0\x0a\xff").is_err());
    // A varint of eleven bytes.
    assert!(
        decode(&[MAGIC, &[0x08], &[0xff; 11]].concat())
            .unwrap_err()
            .contains("varint")
    );
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = decode(&[MAGIC, &bytes].concat());
    }

    #[test]
    fn no_damage_makes_it_panic(case in 0..20_usize, place in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let (mut body, _) = corpus().swap_remove(case);
        let place = place.index(body.len());
        body[place] = byte;
        let _ = decode(&body);
        body.truncate(place);
        let _ = decode(&body);
    }
}
