//! The claims for devices that a pod or a pod group names.

use serde::Deserialize;

use crate::intern::Istr;
use crate::protobuf::{Malformed, Message, Value};

/// One entry of `spec.resourceClaims`, with what the status says of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodClaim {
    pub name: Istr,
    pub source: ClaimSource,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClaimSource {
    /// A claim that a user has created.
    Named(Istr),
    /// A claim that is created from a template.
    Template {
        template: Istr,
        generated: GeneratedClaim,
    },
    /// A way of naming claims that is newer than we are.
    Unknown,
}

/// What a status says of the claim that is created from a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GeneratedClaim {
    NotYet,
    /// It was found out that none is needed.
    NotNeeded,
    Named(Istr),
}

impl PodClaim {
    /// The claim, where it has a name already.
    pub fn claim_name(&self) -> Option<&Istr> {
        match &self.source {
            ClaimSource::Named(name)
            | ClaimSource::Template {
                generated: GeneratedClaim::Named(name),
                ..
            } => Some(name),
            _ => None,
        }
    }

    pub fn template(&self) -> Option<&Istr> {
        match &self.source {
            ClaimSource::Template { template, .. } => Some(template),
            _ => None,
        }
    }

    /// Those of a spec, with what its status says of them.
    pub fn all(specs: &[WireClaim], statuses: &[WireClaimStatus]) -> Box<[PodClaim]> {
        let claims = specs.iter().map(|spec| PodClaim {
            name: spec.name.clone(),
            source: spec.source(statuses),
        });
        claims.collect()
    }
}

/// An entry of the spec, as it is written.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct WireClaim {
    pub name: Istr,
    pub resource_claim_name: Option<Istr>,
    pub resource_claim_template_name: Option<Istr>,
}

/// An entry of the status, as it is written.
#[derive(Deserialize, Default, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct WireClaimStatus {
    pub name: Istr,
    pub resource_claim_name: Option<Istr>,
}

impl WireClaim {
    fn source(&self, statuses: &[WireClaimStatus]) -> ClaimSource {
        if let Some(name) = &self.resource_claim_name {
            return ClaimSource::Named(name.clone());
        }
        let Some(template) = self.resource_claim_template_name.clone() else {
            return ClaimSource::Unknown;
        };
        let status = statuses.iter().find(|status| status.name == self.name);
        let generated = match status.map(|status| &status.resource_claim_name) {
            Some(Some(name)) => GeneratedClaim::Named(name.clone()),
            Some(None) => GeneratedClaim::NotNeeded,
            None => GeneratedClaim::NotYet,
        };
        ClaimSource::Template {
            template,
            generated,
        }
    }
}

impl<'a> Message<'a> for WireClaim {
    fn take(&mut self, field: u32, value: Value<'a>) -> Result<(), Malformed> {
        match field {
            1 => self.name = value.text()?.into(),
            3 => self.resource_claim_name = Some(value.text()?.into()),
            4 => self.resource_claim_template_name = Some(value.text()?.into()),
            _ => {}
        }
        Ok(())
    }
}

impl<'a> Message<'a> for WireClaimStatus {
    fn take(&mut self, field: u32, value: Value<'a>) -> Result<(), Malformed> {
        match field {
            1 => self.name = value.text()?.into(),
            2 => self.resource_claim_name = Some(value.text()?.into()),
            _ => {}
        }
        Ok(())
    }
}
