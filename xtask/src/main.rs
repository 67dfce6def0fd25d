//! Developer commands.

mod schema;

fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args().skip(1);
    match arguments.next().as_deref() {
        Some("schema") => schema::run(
            &arguments.map(Into::into).collect::<Vec<_>>(),
            "schema".as_ref(),
        ),
        _ => anyhow::bail!("usage: cargo xtask schema FOLDER..."),
    }
}
