# SPDX-License-Identifier: BSD-2-Clause
# JSON documents: their head, and man/examples/funcsnoop.schema.json.
# bats file_tags=bpf

load helpers
load stream

SCHEMA=$BATS_TEST_DIRNAME/../man/examples/funcsnoop.schema.json

# Each line of $output is a document of KIND by that part of the schema, and by the whole.
validate() { # KIND
	python3 -c '
import json, sys, jsonschema
schema = json.load(open(sys.argv[1]))
jsonschema.Draft202012Validator.check_schema(schema)
part = dict(schema)
part.pop("anyOf")
part["$ref"] = "#/$defs/" + sys.argv[2]
lines = sys.stdin.read().splitlines()
assert lines, "no document"
for line in lines:
    for s in (schema, part):
        jsonschema.Draft202012Validator(s).validate(json.loads(line))
' "$SCHEMA" "$1" <<<"$output" || fail "not a document '$1': ${output:0:2000}"
}

setup() {
	common_setup
	need_bpf
	need_tool jq python3
	python3 -c 'import jsonschema' 2>/dev/null || skip "python3-jsonschema is missing"
}

@test "documents: lists are in an object with a version, also if they are empty" {
	fsn list --json
	assert_output '{"version":1,"groups":[]}'
	fsn list inflight --json
	assert_output '{"version":1,"calls":[]}'
	fsn -s 1 stats nosuch --json
	validate error
	assert_eq "$(command jq -c '[.version, .error.message]' <<<"$output")" \
		"[1,\"no group 'nosuch' is attached\"]"
}

@test "documents: those of a group follow the schema" {
	fsn attach g fix_add fix_fail --lib "$LIB" --slow 0ns --key thread --json
	validate functions
	capture "$FIX/call" add 5
	capture "$FIX/call" --arg 3 fail 2
	fsn stats g --json
	assert_eq "$(command jq -c '[.version] + (.groups[0].functions | map(.calls) | sort)' <<<"$output")" '[1,2,5]'
	validate stats
	fsn stats g --slow --json
	validate stats
	assert_eq "$(command jq '.groups[0].slow_calls | length' <<<"$output")" 7
	fsn stats g --tree --all --json
	validate stats
	fsn stats g --save "$BATS_TEST_TMPDIR/now.json"
	fsn stats g --diff "$BATS_TEST_TMPDIR/now.json" --json
	validate diff
	fsn list --json
	validate list
	fsn list functions g --json
	validate functions
	fsn reset g --json
	assert_output '{"version":1}'
	validate head
	fsn detach g --json
	validate head
}

@test "documents: those without a group follow the schema" {
	fsn version --json
	validate version_document
	fsn list presets --json
	validate presets
	fsn list targets s:getppid --json
	validate targets
	fsn feature --json
	validate feature
	fsn attach x 'fix_a*' --lib "$LIB" --dry-run --json
	validate functions
	fsn -s 1 attach x nosuch --lib "$LIB" --dry-run --json
	validate error
}

@test "documents: --diff reads one that was saved before version 1" {
	fsn attach g fix_add --lib "$LIB"
	capture "$FIX/call" add 5
	fsn stats g --json
	command jq -c .groups <<<"$output" >"$BATS_TEST_TMPDIR/old.json"
	capture "$FIX/call" add 2
	fsn stats g --diff "$BATS_TEST_TMPDIR/old.json" --json
	assert_json '.[0].functions[0].calls | [.before, .after]' '[5,7]'
	fsn detach g
}

@test "documents: events of a stream follow the schema" {
	fsn attach g fix_add --lib "$LIB"
	start_stream stream g --json -n 3
	capture "$FIX/call" add 3
	wait_bg stream
	output=$(<"$(bg_out stream)")
	validate event
	assert_eq "$(wc -l <<<"$output")" 3
	fsn detach g
}
