//! What others verify service account tokens by.

use super::*;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use keys::PublicKey;

const CONFIGURATION: &str = "/.well-known/openid-configuration";
const KEYS: &str = "/openid/v1/jwks";
const RSA_KEY: &str =
    include_str!("../../../controllers/src/service_account_token/testdata/rsa_pkcs8.pem");

fn reachable(options: &mut Options) {
    options.advertise = Some(("10.1.2.3".parse().unwrap(), 6443));
}

/// Go's test: TestServeConfiguration.
#[tokio::test(start_paused = true)]
async fn the_issuers_document_names_keys_and_algorithms() {
    let server = Server::with(reachable);
    let (code, document) = server.get(CONFIGURATION).await;
    assert_eq!(code, 200);
    assert_eq!(
        document,
        json!({
            "issuer": "https://kubernetes.default.svc.cluster.local",
            "jwks_uri": "https://10.1.2.3:6443/openid/v1/jwks",
            "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["ES256"],
        })
    );
    let response = server
        .send(Method::GET, KEYS, "", "application/json", Bytes::new())
        .await;
    let headers = response.headers();
    assert_eq!(headers["content-type"], "application/jwk-set+json");
    assert_eq!(headers["cache-control"], "public, max-age=3600");
    let (_, index) = server.get("/").await;
    let paths = index["paths"].as_array().unwrap();
    assert!(paths.contains(&json!(CONFIGURATION)) && paths.contains(&json!(KEYS)));
}

#[tokio::test(start_paused = true)]
async fn the_key_of_a_token_is_published() {
    let server = Server::with(reachable);
    server.service_account().await;
    let path = "/api/v1/namespaces/default/serviceaccounts/default/token";
    let (code, answer) = server.post(path, json!({"spec": {}})).await;
    assert_eq!(code, 201, "{answer}");
    let header = answer["status"]["token"]
        .as_str()
        .unwrap()
        .split('.')
        .next();
    let header = URL_SAFE_NO_PAD.decode(header.unwrap()).unwrap();
    let header: Value = serde_json::from_slice(&header).unwrap();
    let (_, published) = server.get(KEYS).await;
    let key = &published["keys"][0];
    assert_eq!(key["kid"], header["kid"]);
    assert_eq!(key["alg"], header["alg"]);
    assert_eq!(
        (&key["use"], &key["kty"], &key["crv"]),
        (&json!("sig"), &json!("EC"), &json!("P-256"))
    );
}

/// UPSTREAM: what is published are the keys of --service-account-key-file, if there are any.
#[tokio::test(start_paused = true)]
async fn the_keys_that_were_given_are_published() {
    let server = Server::with(|options| {
        reachable(options);
        options.settings.service_account_tokens.keys =
            PublicKey::all_from_pem(RSA_KEY.as_bytes()).unwrap();
        options.settings.service_account_tokens.keys_url = Some("https://keys.example.com/".into());
    });
    let (_, document) = server.get(CONFIGURATION).await;
    assert_eq!(document["jwks_uri"], "https://keys.example.com/");
    assert_eq!(
        document["id_token_signing_alg_values_supported"],
        json!(["RS256"])
    );
    let (_, published) = server.get(KEYS).await;
    let [key] = &published["keys"].as_array().unwrap()[..] else {
        panic!("one key in, one key out: {published}");
    };
    assert_eq!(
        (&key["kty"], &key["e"], &key["crv"]),
        (&json!("RSA"), &json!("AQAB"), &Value::Null)
    );
}

/// Go's test: TestNewOpenIDMetadata, TestURLBoundaries.
#[tokio::test(start_paused = true)]
async fn an_issuer_that_discovery_cannot_begin_at_has_no_documents() {
    for issuer in [
        "kubernetes",
        "http://example.com",
        "https://example.com?a=b",
        "https://example.com#a",
    ] {
        let server = Server::with(|options| {
            reachable(options);
            options.issuer = issuer.to_owned();
        });
        assert_eq!(server.get(CONFIGURATION).await.0, 404, "{issuer}");
        assert_eq!(server.get(KEYS).await.0, 404, "{issuer}");
    }
    let unreachable = Server::new();
    assert_eq!(unreachable.get(KEYS).await.0, 404);
    let server = Server::with(reachable);
    for path in ["/.well-known", "/openid/v1/jwks/foo", "/openid/v1"] {
        assert_eq!(server.get(path).await.0, 404, "{path}");
    }
}
