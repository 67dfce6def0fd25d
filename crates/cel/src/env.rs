//! What an expression may speak of: variables and declared objects. Functions are the same everywhere.

use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::decl::Decl;
use crate::types::Type;

/// The declarations that expressions are checked against.
#[derive(Debug, Clone, Default)]
pub struct Env {
    variables: Vec<(Arc<str>, Type, Option<Arc<Decl>>)>,
    structs: FxHashMap<Arc<str>, Arc<Decl>>,
    /// Objects whose fields are computed when they are asked for, with the types of what is computed.
    computed: FxHashMap<Arc<str>, BTreeMap<Arc<str>, Type>>,
    /// Whether objects can be built and patched: `Object{…}`, `JSONPatch{…}`, `jsonpatch.escapeKey`.
    pub mutating: bool,
}

impl Env {
    /// Declares a variable whose type says all.
    pub fn variable(&mut self, name: &str, of: Type) -> &mut Self {
        self.variables.push((name.into(), of, None));
        self
    }

    /// Declares a variable by a schema: its objects become types, its limits bound the cost.
    pub fn declared(&mut self, name: &str, decl: Arc<Decl>) -> &mut Self {
        decl.each_object(&mut |object| {
            if let Type::Struct(name) = object.cel_type() {
                self.structs.insert(name, Arc::new(object.clone()));
            }
        });
        self.variables
            .push((name.into(), decl.cel_type(), Some(decl)));
        self
    }

    /// A variable that is an optional of a schema.
    pub fn optional(&mut self, name: &str, decl: Arc<Decl>) -> &mut Self {
        self.declared(name, decl);
        if let Some(last) = self.variables.last_mut() {
            last.1 = Type::optional(last.1.clone());
        }
        self
    }

    /// A variable whose fields the activation computes. It has none until [`Env::computed_field`] declares them.
    pub fn computed(&mut self, name: &str, type_name: &str) -> &mut Self {
        self.computed.insert(type_name.into(), BTreeMap::new());
        self.variable(name, Type::named(type_name))
    }

    /// Declares, or declares anew, one field of such a variable's type.
    pub fn computed_field(&mut self, type_name: &str, field: &str, of: Type) -> &mut Self {
        let fields = self.computed.entry(type_name.into()).or_default();
        fields.insert(field.into(), of);
        self
    }

    /// Replaces or adds the declaration of a variable, keeping the others.
    pub fn redeclare(&mut self, name: &str, decl: Arc<Decl>) -> &mut Self {
        self.variables.retain(|(known, ..)| &**known != name);
        self.declared(name, decl)
    }

    pub(crate) fn variable_type(&self, name: &str) -> Option<&Type> {
        let found = self.variables.iter().find(|(known, ..)| &**known == name);
        found.map(|(_, of, _)| of)
    }

    /// The schema behind a variable.
    pub(crate) fn decl(&self, variable: &str) -> Option<&Arc<Decl>> {
        let found = self
            .variables
            .iter()
            .find(|(known, ..)| &**known == variable);
        found.and_then(|(_, _, decl)| decl.as_ref())
    }

    pub(crate) fn first_decl(&self) -> Option<&Arc<Decl>> {
        self.variables.iter().find_map(|(_, _, decl)| decl.as_ref())
    }

    /// The types that can be named.
    pub(crate) fn named_type(&self, name: &str) -> Option<Type> {
        if self.structs.contains_key(name) || self.computed.contains_key(name) {
            return Some(Type::named(name));
        }
        if self.mutating && (is_object_name(name) || name == "JSONPatch") {
            return Some(Type::named(name));
        }
        Some(match name {
            "bool" => Type::Bool,
            "bytes" => Type::Bytes,
            "double" => Type::Double,
            "google.protobuf.Duration" => Type::Duration,
            "google.protobuf.Timestamp" => Type::Timestamp,
            "int" => Type::Int,
            "list" => Type::list(Type::Dyn),
            "map" => Type::map(Type::Dyn, Type::Dyn),
            "null_type" => Type::Null,
            "string" => Type::String,
            "type" => Type::Type(None),
            "uint" => Type::Uint,
            "optional_type" => Type::optional(Type::Dyn),
            "net.IP" | "net.CIDR" => Type::parse(name),
            _ => return None,
        })
    }

    /// The type of an object's field; `None` if the type is unknown, `Some(None)` if it has no such field.
    pub(crate) fn field(&self, of: &str, field: &str) -> Option<Option<Type>> {
        if let Some(decl) = self.structs.get(of) {
            let fields = decl.fields()?;
            return Some(fields.get(field).map(|field| field.decl.cel_type()));
        }
        if let Some(fields) = self.computed.get(of) {
            return Some(fields.get(field).cloned());
        }
        if !self.mutating {
            return None;
        }
        if of == "JSONPatch" {
            return Some(match field {
                "op" | "path" | "from" => Some(Type::String),
                "value" => Some(Type::Dyn),
                _ => None,
            });
        }
        is_object_name(of).then_some(Some(Type::Dyn))
    }
}

/// `Object`, `Object.spec`, `Object.spec.template`: objects that mutations are written as.
fn is_object_name(name: &str) -> bool {
    name == "Object" || name.starts_with("Object.")
}
