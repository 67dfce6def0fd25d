//! What a write needs of its object at other versions, where a webhook has to be asked.
//!
//! Merging and comparing wait for nobody. So whoever needs a conversion that was not made yet says so and gives up; then
//! the webhook is asked, and the work begins again with its answer.

use super::Context;
use super::prepared::Proposed;
use crate::apply::{AtVersion, Schema};
use crate::crd::conversion::Conversion;
use crate::status::Status;
use serde_json::Value;

/// More than one write needs: an object has a handful of versions, and each is asked for a few times.
const CONVERSIONS_MAX: usize = 256;

#[derive(Default)]
pub(crate) struct Conversions {
    made: Vec<Made>,
    wanted: Option<(Value, String)>,
}

struct Made {
    of: Value,
    to: String,
    result: Result<Value, String>,
}

impl Conversions {
    /// Is a conversion waited for, so that whatever failed has to be tried again?
    pub(super) fn are_awaited(&self) -> bool {
        self.wanted.is_some()
    }

    /// UPSTREAM: managed fields are not part of what is converted.
    pub(super) fn at(
        &mut self,
        conversion: &Conversion,
        object: &Value,
        to: &str,
    ) -> Result<Option<AtVersion>, Status> {
        let Some(schema) = conversion.schema(to) else {
            return Err(Status::unexpected(format!(
                "request to convert CR to an invalid group/version: {to}"
            )));
        };
        let found = |value| {
            let schema = Schema::Custom(schema.clone());
            Ok(Some(AtVersion { schema, value }))
        };
        let mut of = object.clone();
        if let Some(metadata) = of["metadata"].as_object_mut() {
            metadata.remove("managedFields");
        }
        if of["apiVersion"] == to {
            return found(of);
        }
        let made = self.made.iter().find(|made| made.to == to && made.of == of);
        match made.map(|made| made.result.clone()) {
            Some(Ok(value)) => found(value),
            Some(Err(why)) => Err(Status::unexpected(why)),
            None => {
                self.wanted = Some((of, to.to_owned()));
                Err(Status::internal("a conversion is waited for"))
            }
        }
    }
}

impl Context {
    /// What is to be written, with all conversions that it takes to know it.
    pub(super) async fn propose_converted(
        &mut self,
        propose: &mut impl FnMut(&mut Context) -> Result<Proposed, Status>,
    ) -> Result<Proposed, Status> {
        let warnings = self.warnings.len();
        self.conversions = Conversions::default();
        for _ in 0..CONVERSIONS_MAX {
            let proposed = propose(self);
            let (Some((of, to)), Some(conversion)) =
                (self.conversions.wanted.take(), self.conversion())
            else {
                return proposed;
            };
            self.warnings.truncate(warnings);
            let converted = conversion
                .convert(&self.shared, vec![of.clone()], &to)
                .await;
            let result = converted.map(|mut values| values.pop().unwrap_or_default());
            self.conversions.made.push(Made { of, to, result });
        }
        Err(Status::internal("a write takes too many conversions"))
    }
}
