//! What expressions of admission policies and match conditions may speak of: the request, its object, and more where a
//! policy has it. The API server compiles them with these declarations, and so does whoever checks their types.

use std::sync::{Arc, LazyLock};

use crate::decl::{Decl, Kind};
use crate::env::Env;
use crate::types::Type;

const VARIABLES: &str = "kubernetes.variables";

/// What expressions may speak of beyond the request and its object.
#[derive(Clone, Copy, Debug, Default)]
pub struct Scope {
    pub params: bool,
    pub authorizer: bool,
    /// `Object{…}` and `JSONPatch{…}`
    pub patches: bool,
}

/// What is known of the types of objects; they are dynamic without it.
#[derive(Clone, Debug, Default)]
pub struct Types {
    pub object: Option<Arc<Decl>>,
    pub params: Option<Arc<Decl>>,
}

/// The declarations for one policy; variables are added by [`declare_variable`] once there may be some.
pub fn environment(scope: Scope, types: &Types) -> Env {
    let mut env = Env::default();
    let mut declare = |name: &str, decl: &Option<Arc<Decl>>| match decl {
        Some(decl) => drop(env.declared(name, decl.clone())),
        None => drop(env.variable(name, Type::Dyn)),
    };
    declare("object", &types.object);
    declare("oldObject", &types.object);
    if scope.params {
        declare("params", &types.params);
    }
    env.declared("namespaceObject", NAMESPACE.clone())
        .declared("request", REQUEST.clone());
    if scope.authorizer {
        env.variable("authorizer", authorization("Authorizer"))
            .variable("authorizer.requestResource", authorization("ResourceCheck"));
    }
    env.mutating = scope.patches;
    env
}

/// `kubernetes.authorization.Authorizer` and its like.
pub fn authorization(name: &str) -> Type {
    Type::named(&format!("kubernetes.authorization.{name}"))
}

/// Lets expressions use variables, of which there are none yet.
pub fn allow_variables(env: &mut Env) {
    env.computed("variables", VARIABLES);
}

/// Declares one variable, under the type that its expression has. What has no plain type is dynamic.
pub fn declare_variable(env: &mut Env, name: &str, of: &Type) {
    env.computed_field(VARIABLES, name, plain(of));
}

fn plain(of: &Type) -> Type {
    match of {
        Type::List(element) => Type::list(plain(element)),
        Type::Map(pair) => Type::map(plain(&pair.0), plain(&pair.1)),
        Type::Struct(_) | Type::Opaque(..) | Type::Type(_) | Type::Error => Type::Dyn,
        other => other.clone(),
    }
}

static REQUEST: LazyLock<Arc<Decl>> = LazyLock::new(|| {
    let text = || Decl::of(Kind::String);
    let of_kind = || {
        let names = ["group", "version", "kind"];
        Decl::object(
            "kubernetes.GroupVersionKind",
            names.map(|name| (name, text())),
        )
    };
    let of_resource = || {
        let names = ["group", "version", "resource"];
        let name = "kubernetes.GroupVersionResource";
        Decl::object(name, names.map(|name| (name, text())))
    };
    let user = Decl::object(
        "kubernetes.UserInfo",
        [
            ("username", text()),
            ("uid", text()),
            ("groups", Decl::list(text())),
            ("extra", Decl::map(Decl::list(text()))),
        ],
    );
    let fields = [
        ("kind", of_kind()),
        ("resource", of_resource()),
        ("subResource", text()),
        ("requestKind", of_kind()),
        ("requestResource", of_resource()),
        ("requestSubResource", text()),
        ("name", text()),
        ("namespace", text()),
        ("operation", text()),
        ("userInfo", user),
        ("dryRun", Decl::of(Kind::Bool)),
        ("options", Decl::dynamic()),
    ];
    Arc::new(Decl::object("kubernetes.AdmissionRequest", fields))
});

static NAMESPACE: LazyLock<Arc<Decl>> = LazyLock::new(|| {
    let text = || Decl::of(Kind::String);
    let time = || Decl::of(Kind::DateTime);
    let spec = Decl::object(
        "kubernetes.NamespaceSpec",
        [("finalizers", Decl::list(text()))],
    );
    let condition = Decl::object(
        "kubernetes.NamespaceCondition",
        [
            ("status", text()),
            ("type", text()),
            ("lastTransitionTime", time()),
            ("message", text()),
            ("reason", text()),
        ],
    );
    let status = Decl::object(
        "kubernetes.NamespaceStatus",
        [("conditions", Decl::list(condition)), ("phase", text())],
    );
    let metadata = Decl::object(
        "kubernetes.NamespaceMetadata",
        [
            ("name", text()),
            ("generateName", text()),
            ("namespace", text()),
            ("labels", Decl::map(text())),
            ("annotations", Decl::map(text())),
            // UPSTREAM: in capitals, and so never found in the data.
            ("UID", text()),
            ("creationTimestamp", time()),
            ("deletionGracePeriodSeconds", Decl::of(Kind::Int)),
            ("deletionTimestamp", time()),
            ("generation", Decl::of(Kind::Int)),
            ("resourceVersion", text()),
            ("finalizers", Decl::list(text())),
        ],
    );
    let fields = [("metadata", metadata), ("spec", spec), ("status", status)];
    Arc::new(Decl::object("kubernetes.Namespace", fields))
});
