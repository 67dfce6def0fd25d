//! Signing, then the whole against the embedded API server.

use api::kinds::{SERVICE_ACCOUNT_TOKEN, Secret, ServiceAccount};
use api::{Meta, Resource};
use base64::Engine;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD};
use ring::signature::{self, UnparsedPublicKey};
use serde_json::{Value, json};
use testkit::World;

use super::{Signer, controller, owner};
use keys::{Curve, Key};

// Made for these tests and used nowhere else.
const RSA_PKCS1: &[u8] = include_bytes!("testdata/rsa_pkcs1.pem");
const RSA_PKCS8: &[u8] = include_bytes!("testdata/rsa_pkcs8.pem");
const EC_SEC1: &[u8] = include_bytes!("testdata/ec_sec1.pem");
const EC_PKCS8: &[u8] = include_bytes!("testdata/ec_pkcs8.pem");

fn decoded(token: &str) -> (String, String) {
    let mut parts = token.split('.').map(|part| {
        let bytes = BASE64_URL_SAFE_NO_PAD.decode(part).unwrap();
        String::from_utf8_lossy(&bytes).into_owned()
    });
    (parts.next().unwrap(), parts.next().unwrap())
}

#[test]
fn keys_are_named_as_upstream_names_them() {
    // openssl pkey -pubout -outform DER | openssl dgst -sha256 -binary | basenc --base64url
    for (pem, key_id) in [
        (RSA_PKCS1, "_Ojo79XE6W7rXiJzkgda3gb2qTdXB85l7SFvojM23FY"),
        (RSA_PKCS8, "_Ojo79XE6W7rXiJzkgda3gb2qTdXB85l7SFvojM23FY"),
        (EC_SEC1, "Sj3-fwTfj1TrE0cI2c1bjfla5i_1xzv6jXGIC6yhrWI"),
        (EC_PKCS8, "Sj3-fwTfj1TrE0cI2c1bjfla5i_1xzv6jXGIC6yhrWI"),
    ] {
        assert_eq!(Signer::from_pem(pem).unwrap().key_id(), key_id);
    }
}

#[test]
fn a_token_says_whose_it_is() {
    let signer = Signer::from_pem(RSA_PKCS1).unwrap();
    let token = signer.legacy_token("ns", "acc", "u-1", "sec").unwrap();
    let (header, claims) = decoded(&token);
    assert_eq!(
        header,
        r#"{"alg":"RS256","kid":"_Ojo79XE6W7rXiJzkgda3gb2qTdXB85l7SFvojM23FY"}"#
    );
    assert_eq!(
        claims,
        r#"{"iss":"kubernetes/serviceaccount","kubernetes.io/serviceaccount/namespace":"ns","kubernetes.io/serviceaccount/secret.name":"sec","kubernetes.io/serviceaccount/service-account.name":"acc","kubernetes.io/serviceaccount/service-account.uid":"u-1","sub":"system:serviceaccount:ns:acc"}"#
    );
    let again = Signer::from_pem(RSA_PKCS8).unwrap();
    assert_eq!(
        again.legacy_token("ns", "acc", "u-1", "sec").unwrap(),
        token,
        "the same key in another envelope"
    );
}

#[test]
fn signatures_verify() {
    use ring::signature::KeyPair;
    let signer = Signer::from_pem(EC_SEC1).unwrap();
    let token = signer.legacy_token("ns", "acc", "u-1", "sec").unwrap();
    let (message, signed) = token.rsplit_once('.').unwrap();
    let signed = BASE64_URL_SAFE_NO_PAD.decode(signed).unwrap();
    let Key::Ecdsa(pair, Curve::P256) = &signer.private.key else {
        panic!("a P-256 key");
    };
    UnparsedPublicKey::new(
        &signature::ECDSA_P256_SHA256_FIXED,
        pair.public_key().as_ref(),
    )
    .verify(message.as_bytes(), &signed)
    .unwrap();
    let signer = Signer::from_pem(RSA_PKCS1).unwrap();
    let token = signer.legacy_token("ns", "acc", "u-1", "sec").unwrap();
    let (message, signed) = token.rsplit_once('.').unwrap();
    let signed = BASE64_URL_SAFE_NO_PAD.decode(signed).unwrap();
    let Key::Rsa(pair) = &signer.private.key else {
        panic!("an RSA key");
    };
    UnparsedPublicKey::new(
        &signature::RSA_PKCS1_2048_8192_SHA256,
        pair.public_key().as_ref(),
    )
    .verify(message.as_bytes(), &signed)
    .unwrap();
}

#[test]
fn other_keys_are_refused_with_advice() {
    let error = |pem: &[u8]| Signer::from_pem(pem).err().unwrap().to_string();
    assert!(error(b"nonsense").contains("PEM-encoded private key"));
    let wrong = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n";
    assert!(error(wrong.as_bytes()).contains("give an RSA key"));
}

// Upstream: the keys of TestTokenCreation.
#[test]
fn only_tokens_with_an_account_are_ours() {
    let read = |type_: &str, annotations: Value| {
        let json = json!({"metadata": {"name": "s", "annotations": annotations}, "type": type_});
        owner(&Secret::decode(json.to_string().as_bytes()).unwrap())
    };
    let name = json!({"kubernetes.io/service-account.name": "a"});
    assert_eq!(read("Opaque", name.clone()), None);
    assert_eq!(read(SERVICE_ACCOUNT_TOKEN, json!({})), None);
    let any = read(SERVICE_ACCOUNT_TOKEN, name).unwrap();
    let both = json!({"kubernetes.io/service-account.name": "a", "kubernetes.io/service-account.uid": "1"});
    let one = read(SERVICE_ACCOUNT_TOKEN, both).unwrap();
    let account = |uid: &str| Meta {
        name: "a".into(),
        uid: uid.into(),
        ..Meta::default()
    };
    assert!(any.means(&account("1")) && any.means(&account("2")));
    assert!(one.means(&account("1")) && !one.means(&account("2")));
}

async fn world() -> World {
    let mut world = World::new().await;
    let context = world.context();
    let signer = Signer::from_pem(RSA_PKCS1).unwrap();
    let running = controller(&context, signer, Some(b"the root"), 5).run(world.stop());
    world.run(running);
    world.start().await;
    world.wait_until_idle().await;
    world.written();
    world
}

fn token_secret(account: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Secret", "type": SERVICE_ACCOUNT_TOKEN,
        "metadata": {"name": "t", "annotations": {"kubernetes.io/service-account.name": account}},
        "data": {"extra": "AA=="},
    })
}

async fn create_account(world: &World) {
    let account = json!({
        "apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot"},
        "secrets": [{"name": "t"}, {"name": "other"}],
    });
    world.create(&ServiceAccount::TYPE, account).await;
}

// Upstream: TestTokenCreation.
#[tokio::test(start_paused = true)]
async fn a_token_secret_is_filled() {
    let world = world().await;
    create_account(&world).await;
    world.create(&Secret::TYPE, token_secret("robot")).await;
    world.wait_until_idle().await;
    assert_eq!(world.written(), "PUT secrets/t");
    let secret = world.get(&Secret::TYPE, "t").await.unwrap();
    let text = |key: &str| {
        let value = secret["data"][key].as_str().unwrap();
        String::from_utf8(BASE64_STANDARD.decode(value).unwrap()).unwrap()
    };
    assert_eq!(
        (text("ca.crt"), text("namespace")),
        ("the root".into(), "default".into())
    );
    let (_, claims) = decoded(&text("token"));
    assert!(claims.contains(r#""sub":"system:serviceaccount:default:robot""#));
    assert_eq!(secret["data"]["extra"], "AA==", "the rest stays");
    assert!(secret["metadata"]["annotations"]["kubernetes.io/service-account.uid"].is_string());
    world.wait_until_idle().await;
    assert_eq!(world.written(), "");

    let forged = json!({"data": {"ca.crt": "AA=="}});
    world.patch(&Secret::TYPE, "t", forged).await;
    world.wait_until_idle().await;
    assert_eq!(
        world.written(),
        "PUT secrets/t",
        "the root is set right again"
    );
}

// Upstream: TestTokenCreation.
#[tokio::test(start_paused = true)]
async fn what_a_token_secret_lacks_is_written_and_the_rest_stays() {
    let encoded = |text: &str| BASE64_STANDARD.encode(text);
    let whole = json!({
        "token": encoded("abc"), "ca.crt": encoded("the root"), "namespace": encoded("default"),
    });
    for (key, value, written) in [
        ("extra", json!("AA=="), ""),
        ("token", Value::Null, "PUT secrets/t"),
        ("ca.crt", Value::Null, "PUT secrets/t"),
        ("ca.crt", json!(encoded("another")), "PUT secrets/t"),
        ("namespace", Value::Null, "PUT secrets/t"),
        // Somebody wants it so.
        ("namespace", json!(encoded("custom")), ""),
    ] {
        for is_new in [true, false] {
            let world = world().await;
            create_account(&world).await;
            let mut secret = token_secret("robot");
            secret["data"] = whole.clone();
            if is_new {
                secret["data"][key] = value.clone();
                world.create(&Secret::TYPE, secret).await;
            } else {
                world.create(&Secret::TYPE, secret).await;
                world.wait_until_idle().await;
                assert_eq!(world.written(), "", "it is whole");
                let patch = json!({"data": {key: value}});
                world.patch(&Secret::TYPE, "t", patch).await;
            }
            world.wait_until_idle().await;
            assert_eq!(world.written(), written, "{key} {value} {is_new}");
            let secret = world.get(&Secret::TYPE, "t").await.unwrap();
            let data = &secret["data"];
            assert_eq!(data["ca.crt"], whole["ca.crt"]);
            let is_custom = key == "namespace" && !value.is_null();
            let namespace = if is_custom {
                &value
            } else {
                &whole["namespace"]
            };
            assert_eq!(data["namespace"], *namespace);
            assert_eq!(data["token"] == whole["token"], key != "token");
        }
    }
}

// Upstream: TestTokenCreation.
#[tokio::test(start_paused = true)]
async fn an_account_whose_secrets_are_no_tokens_is_left_alone() {
    let world = world().await;
    let opaque = json!({
        "apiVersion": "v1", "kind": "Secret", "type": "Opaque",
        "metadata": {"name": "other", "annotations": {"kubernetes.io/service-account.name": "robot"}},
    });
    world.create(&Secret::TYPE, opaque).await;
    create_account(&world).await;
    world.wait_until_idle().await;
    let label = json!({"metadata": {"labels": {"a": "b"}}});
    world.patch(&ServiceAccount::TYPE, "robot", label).await;
    world.wait_until_idle().await;
    world.delete(&ServiceAccount::TYPE, "robot").await;
    world.wait_until_idle().await;
    assert_eq!(world.written(), "");
    assert!(world.get(&Secret::TYPE, "other").await.is_some());
}

#[tokio::test(start_paused = true)]
async fn a_token_goes_with_its_account() {
    let world = world().await;
    create_account(&world).await;
    world.create(&Secret::TYPE, token_secret("robot")).await;
    world.wait_until_idle().await;
    world.written();
    world.delete(&ServiceAccount::TYPE, "robot").await;
    world.wait_until_idle().await;
    assert_eq!(world.written(), "DELETE secrets/t");
    assert!(world.get(&Secret::TYPE, "t").await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_token_for_nobody_is_deleted() {
    let world = world().await;
    let secret = world.create(&Secret::TYPE, token_secret("nobody")).await;
    world.wait_until_idle().await;
    let writes = world.writes();
    assert_eq!(writes.len(), 1);
    assert_eq!(writes[0].to_string(), "DELETE secrets/t");
    let preconditions = json!({"uid": secret["metadata"]["uid"]});
    assert_eq!(writes[0].body["preconditions"], preconditions);
}

#[tokio::test(start_paused = true)]
async fn an_account_forgets_a_deleted_token() {
    let world = world().await;
    create_account(&world).await;
    world.create(&Secret::TYPE, token_secret("robot")).await;
    world.wait_until_idle().await;
    world.written();
    world.delete(&Secret::TYPE, "t").await;
    world.wait_until_idle().await;
    assert_eq!(world.written(), "PUT serviceaccounts/robot");
    let account = world.get(&ServiceAccount::TYPE, "robot").await.unwrap();
    assert_eq!(account["secrets"], json!([{"name": "other"}]));
}
