//! Certificate requests of kubelets: approved and signed.

use anyhow::Result;
use real_tests::installation::Installation;
use serde_json::json;

use super::Options;
use super::fixtures::wait_for;
use super::scenarios::{both, size};
use super::stage::{Phase, in_parallel, same_controllers};

const REQUESTS: usize = 1000;
const REQUEST_PATH: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";

pub(super) fn certificates(
    installation: &Installation,
    options: &Options,
    reverse: bool,
) -> Result<Vec<Phase>> {
    let requests = size(options, REQUESTS);
    both(installation, options, reverse, |stage, flavor| {
        let mut manager = stage.start_manager(flavor, &same_controllers())?;
        // What a node asks for with a bootstrap token; the administrator may do what such a token may.
        let request = stage
            .cluster
            .authority
            .request("system:node:node-0", Some("system:nodes"))?;
        let signed = stage.measure("signed", requests, &mut manager, |cluster| {
            in_parallel(requests, |number| {
                let object = json!({
                    "metadata": {"name": format!("node-{number}")},
                    "spec": {
                        "signerName": "kubernetes.io/kube-apiserver-client-kubelet",
                        "usages": ["digital signature", "client auth"],
                        "request": request,
                    },
                });
                cluster.api.create(REQUEST_PATH, &object).map(drop)
            })?;
            wait_for(&cluster.api, REQUEST_PATH, requests, |one| {
                one["status"]["certificate"].is_string()
            })
        })?;
        Ok(vec![signed])
    })
}
