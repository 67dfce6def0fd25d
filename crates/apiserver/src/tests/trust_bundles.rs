//! ClusterTrustBundles, served where they are asked for.

use super::*;
use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair};

const BETA: &str = "/apis/certificates.k8s.io/v1beta1/clustertrustbundles";
const ALPHA: &str = "/apis/certificates.k8s.io/v1alpha1/clustertrustbundles";

fn anchor() -> String {
    let mut params = CertificateParams::new(["root".to_owned()]).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    params.self_signed(&key).unwrap().pem()
}

#[tokio::test(start_paused = true)]
async fn a_bundle_is_one_object_at_both_versions() {
    assert_eq!(Server::new().get(BETA).await.0, 404);
    let server = Server::with(|options| options.serves.previews = true);
    let bundle = json!({"metadata": {"name": "example.com:s:one"},
        "spec": {"signerName": "example.com/s", "trustBundle": anchor()}});
    let (code, made) = server.post(ALPHA, bundle.clone()).await;
    assert_eq!(code, 201, "{made}");
    assert_eq!(made["apiVersion"], "certificates.k8s.io/v1alpha1");
    let (code, read) = server.get(&format!("{BETA}/example.com:s:one")).await;
    assert_eq!(code, 200, "{read}");
    assert_eq!(read["apiVersion"], "certificates.k8s.io/v1beta1");
    assert_eq!(read["metadata"]["uid"], made["metadata"]["uid"]);
    // A PUT says what it replaces.
    let (code, refused) = server
        .put(&format!("{BETA}/example.com:s:one"), bundle)
        .await;
    assert_eq!(code, 422, "{refused}");
    for (signer, count) in [("example.com/s", 1), ("example.com/t", 0)] {
        let (_, list) = server
            .get(&format!("{BETA}?fieldSelector=spec.signerName={signer}"))
            .await;
        assert_eq!(names(&list).len(), count, "{signer}");
    }
    let wrong = json!({"metadata": {"name": "two"}, "spec": {"trustBundle": "none"}});
    let (code, refused) = server.post(BETA, wrong).await;
    assert_eq!(code, 422);
    assert_eq!(
        refused["message"],
        "ClusterTrustBundle.certificates.k8s.io \"two\" is invalid: spec.trustBundle: Invalid value: \"<value omitted>\": at least one trust anchor must be provided"
    );
}
