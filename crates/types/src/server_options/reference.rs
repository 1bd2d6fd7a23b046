//! The configuration reference, generated from the table.

use std::fmt::Write as _;

use super::{Effect, FAMILIES, GROUPS, OptionKind, ServerOption};

/// The reference page of all options as Markdown. The page in the documentation
/// must equal it; a test of the tool that writes the page compares them.
pub fn reference_markdown() -> String {
    let mut page = String::from(
        "# Configuration reference\n\n\
         Generated from the table of options; do not edit.\n\n\
         `server.yaml` holds one `key: value` per line. It is not YAML: the line is split at the \
         first colon followed by a space, everything from the first `#` on is a comment, there is \
         no quoting, and of equal keys the last one wins. `-D key=value` on the command line wins \
         over the file.\n\n\
         Durations are an integer and a unit (`ns`, `µs`, `ms`, `s`, `min`, `h`, `d`); the unit is \
         required. Memory sizes are an integer and an optional unit in powers of 1024 (`b`, `kb`, \
         `mb`, `gb`, `tb`). Lists are separated by commas, maps are `k1:v1,k2:v2`.\n\n\
         *Change*: \"live\" options can be changed while the server runs. *Effect*: \"yes\"; \"not \
         yet\" is checked and kept for a part that is not built; \"cluster\" matters only when \
         several processes form a cluster; \"none\" is accepted so that an existing file works.\n",
    );
    for group in GROUPS {
        write!(page, "\n## {}\n\n", group.title).expect("writing to a String");
        page.push_str("| Key | Kind | Default | Change | Effect | Meaning |\n");
        page.push_str("|---|---|---|---|---|---|\n");
        for option in group.options {
            row(&mut page, option);
        }
    }
    page.push_str("\n## Families of keys\n\n| Prefix | Change | Meaning |\n|---|---|---|\n");
    for family in FAMILIES {
        writeln!(
            page,
            "| `{}` | {} | {} |",
            family.prefix,
            change(family.dynamic),
            family.help
        )
        .expect("writing to a String");
    }
    page
}

fn row(page: &mut String, option: &ServerOption) {
    let kind = match option.kind {
        OptionKind::Enum(words) | OptionKind::EnumList(words) => {
            format!("{}: {}", option.kind.name(), words.join(", "))
        }
        kind => kind.name().to_owned(),
    };
    let default = option.default.map_or_else(String::new, |default| {
        if default.is_empty() {
            "empty".to_owned()
        } else {
            format!("`{default}`")
        }
    });
    let effect = match option.effect {
        Effect::Active => "yes",
        Effect::NotYet => "not yet",
        Effect::ClusterOnly => "cluster",
        Effect::None => "none",
    };
    let old = if option.old_keys.is_empty() {
        String::new()
    } else {
        let keys: Vec<String> = option
            .old_keys
            .iter()
            .map(|key| format!("`{key}`"))
            .collect();
        format!(" Also: {}.", keys.join(", "))
    };
    writeln!(
        page,
        "| `{}` | {kind} | {default} | {} | {effect} | {}{old} |",
        option.key,
        change(option.dynamic),
        option.help
    )
    .expect("writing to a String");
}

const fn change(dynamic: bool) -> &'static str {
    if dynamic { "live" } else { "restart" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_one_row_per_option() {
        let page = reference_markdown();
        for option in super::super::all() {
            let rows = page
                .lines()
                .filter(|l| l.starts_with(&format!("| `{}` |", option.key)));
            assert_eq!(rows.count(), 1, "{}", option.key);
        }
    }

    #[test]
    fn every_row_of_a_table_has_its_columns() {
        for line in reference_markdown()
            .lines()
            .filter(|line| line.starts_with("| `"))
        {
            let columns = line.matches('|').count() - 1;
            assert!(columns == 6 || columns == 3, "{line}");
        }
    }

    #[test]
    fn a_row_shows_kind_default_and_old_key() {
        let page = reference_markdown();
        assert!(
            page.contains("| `mainstem.durability` | word: fsync, os | `fsync` | restart | yes |")
        );
        assert!(page.contains("Also: `log.fetch.max-bytes`."));
    }
}
