use super::*;

/// What the command prints for an argument, on either stream.
fn output(text: &str) -> String {
    let query = Query::parse(text);
    let found: Vec<_> = registry().iter().filter(|element| query.matches(element)).collect();
    if found.is_empty() { nothing_found(text, query) } else { table(&found) }
}

#[test]
fn a_part_of_a_name_finds_elements_of_all_scopes() {
    insta::assert_snapshot!(output("OctetDelta"));
}

#[test]
fn an_id_finds_the_element_of_iana_with_its_columns() {
    insta::assert_snapshot!(["32", "33002"].map(output).join("\n"));
}

#[test]
fn a_number_with_enterprise_finds_one_element() {
    insta::assert_snapshot!(["29305/2", "35632/188", "v9/40005", "0/8"].map(output).join("\n"));
}

#[test]
fn what_is_not_found_gets_the_nearest_names() {
    let texts = ["octetDeltaCuont", "tls_servername", "65", "5951/347", "14988/1"];
    insta::assert_snapshot!(texts.map(output).join("\n"));
}

#[test]
fn without_argument_all_are_listed() {
    let all = output("");
    assert_eq!(all.lines().count(), 1 + registry().iter().count());
    assert!(all.lines().all(|line| !line.ends_with(' ')));
}
