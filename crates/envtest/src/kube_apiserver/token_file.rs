//! `--token-auth-file`: bearer tokens that are known from the start.

use apiserver::auth::{Identity, StaticToken};

/// Reads `token,user,uid[,"group,group"]` lines. The error completes a sentence about the file.
pub(super) fn parse(text: &str) -> Result<Vec<StaticToken>, String> {
    let mut tokens: Vec<StaticToken> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        if line.trim().is_empty() {
            continue;
        }
        let number = index + 1;
        let columns = columns(line).map_err(|problem| format!("line {number} {problem}"))?;
        let [token, user, uid, more @ ..] = &columns[..] else {
            let found = columns.len();
            return Err(format!(
                "line {number} must have at least 3 columns (token, user name, user uid), found {found}"
            ));
        };
        // UPSTREAM: a line without a token is passed over.
        if token.is_empty() {
            continue;
        }
        let groups: Vec<&str> = match more.first() {
            Some(groups) if !groups.is_empty() => groups.split(',').collect(),
            _ => Vec::new(),
        };
        // UPSTREAM: the last line of a token counts.
        tokens.retain(|known| known.token != *token);
        tokens.push(StaticToken {
            token: token.clone(),
            identity: Identity {
                uid: uid.clone(),
                ..Identity::new(user, &groups)
            },
        });
    }
    Ok(tokens)
}

/// A line of comma-separated values; one in quotation marks may hold commas, and twice a quotation mark is one.
fn columns(line: &str) -> Result<Vec<String>, String> {
    let mut columns = vec![String::new()];
    let mut quoted = false;
    let mut characters = line.trim_end_matches('\r').chars().peekable();
    while let Some(character) = characters.next() {
        let Some(column) = columns.last_mut() else {
            break;
        };
        match character {
            '"' if quoted && characters.peek() == Some(&'"') => {
                characters.next();
                column.push('"');
            }
            '"' => quoted = !quoted,
            ',' if !quoted => columns.push(String::new()),
            // UPSTREAM: leading space is cut off everywhere.
            ' ' | '\t' if !quoted && column.is_empty() => {}
            character => column.push(character),
        }
    }
    match quoted {
        true => Err("has an opening quotation mark without a closing one".to_owned()),
        false => Ok(columns
            .into_iter()
            .map(|text| text.trim().to_owned())
            .collect()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_become_users() {
        let text = "t1,anna,1\n\nt2,ben,2,\"system:masters,team\"\nt3, cleo, 3, solo\n";
        let tokens = parse(text).ok().unwrap();
        let shown: Vec<_> = tokens
            .iter()
            .map(|one| {
                format!(
                    "{} {} {:?}",
                    one.identity.user, one.identity.uid, one.identity.groups
                )
            })
            .collect();
        assert_eq!(
            shown,
            [
                r#"anna 1 ["system:authenticated"]"#,
                r#"ben 2 ["system:masters", "team", "system:authenticated"]"#,
                r#"cleo 3 ["solo", "system:authenticated"]"#,
            ]
        );
    }

    #[test]
    fn mistakes_name_the_line() {
        let wrong = |text| parse(text).err().unwrap();
        assert!(wrong("a,b,1\nc,d").starts_with("line 2 must have at least 3 columns"));
        assert!(wrong("a,b,1,\"c").contains("without a closing one"));
    }
}
