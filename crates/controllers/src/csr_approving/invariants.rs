//! What must hold: of every approval ([`safe`]), and once nothing changes any more ([`converged`]).

use api::kinds::{CERTIFICATE_APPROVED, CertificateSigningRequest};

use super::DESCRIPTOR;
use crate::certificates::{Request, Signer};
use crate::oracle::{Change, Oracle, Verdict, World, no_business};

#[derive(Default)]
pub struct ApprovingOracle;

impl Oracle for ApprovingOracle {
    fn after_write(&self, _world: &World, change: &Change) -> Verdict {
        match change.updated::<CertificateSigningRequest>() {
            Some((before, after)) => safe(&before, &after),
            None => no_business(DESCRIPTOR.name, change),
        }
    }

    fn at_rest(&self, world: &World) -> Verdict {
        let requests = world.store::<CertificateSigningRequest>().list();
        requests.iter().try_for_each(|request| converged(request))
    }
}

/// A kubelet's request is approved, if its requester may do everything.
pub fn converged(request: &CertificateSigningRequest) -> Verdict {
    let mut groups = request.spec.groups.iter();
    let is_permitted = groups.any(|group| *group == "system:masters");
    let is_open = !request.is_approved() && !request.is_denied() && !request.is_issued();
    match is_open && is_permitted && is_of_kubelet(request) {
        true => Err(format!(
            "request {} of a kubelet was not approved",
            request.metadata.name
        )),
        false => Ok(()),
    }
}

/// Nothing is approved but what a kubelet asks for, and nothing that anybody has decided before. The rest of the request
/// stays as it was.
pub fn safe(before: &CertificateSigningRequest, after: &CertificateSigningRequest) -> Verdict {
    let fail = |problem: &str| Err(format!("request {}: {problem}", before.metadata.name));
    if before.is_approved() || before.is_denied() || before.is_issued() {
        return fail("it was decided before, and was approved");
    }
    if !is_of_kubelet(before) {
        return fail("it was approved, and no kubelet asks like that");
    }
    if before.spec != after.spec || before.status.certificate != after.status.certificate {
        return fail("more than its approval was changed");
    }
    let added = after
        .status
        .conditions
        .strip_prefix(&*before.status.conditions);
    match added {
        Some([added]) if &*added.type_ == CERTIFICATE_APPROVED => Ok(()),
        _ => fail("something else than an approval was added to its conditions"),
    }
}

/// Does a kubelet ask for its certificate as a client?
fn is_of_kubelet(request: &CertificateSigningRequest) -> bool {
    let signer = Signer::KubeletClient;
    let asked = Request::parse(&request.spec.request);
    *request.spec.signer_name == *signer.name()
        && asked.is_ok_and(|asked| signer.validate(&asked, &request.spec.usages).is_ok())
}
