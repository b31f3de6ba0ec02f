#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause
# Clones that a compiler makes of a function (.isra, .part, .constprop): they belong to its name.

load helpers

CL=$FIX/clones

setup() {
	common_setup
	need_bpf
	need_tool jq
}

# run OPTION... -- COMMAND...: $output is the JSON that it writes
json_run() {
	fsn -q run --json -o "$BATS_TEST_TMPDIR/out" "$@"
	output=$(<"$BATS_TEST_TMPDIR/out")
}

# The names that FUNCTION... mean, sorted.
named() {
	fsn attach g "$@" --lib "$CL" --dry-run --json
	jq -r '.[0].functions | map(select(.refused == null).name) | sort | join(" ")' <<<"$output"
}

@test "clones: a function means its clones, and a cold part is none" {
	assert_eq "$(named cl_both)" "cl_both cl_both.constprop.0.isra.1 cl_both.isra.0"
	assert_eq "$(named cl_plain)" "cl_plain"
}

@test "clones: a function of which only a clone is left is found by its name" {
	assert_eq "$(named cl_only)" "cl_only.part.0"
}

@test "clones: a glob and a regular expression match by the function's name" {
	assert_eq "$(named 'cl_bo*h')" "cl_both cl_both.constprop.0.isra.1 cl_both.isra.0"
	assert_eq "$(named -r '^cl_(only|plain)$')" "cl_only.part.0 cl_plain"
	assert_eq "$(named 'cl_*.isra.0')" "cl_both.isra.0"
}

@test "clones: a clone can be named alone, and its clones with it" {
	assert_eq "$(named cl_both.isra.0)" "cl_both.isra.0"
	assert_eq "$(named cl_both.constprop.0.isra.1)" "cl_both.constprop.0.isra.1"
}

@test "clones: a demangled name means the clones of that function" {
	assert_eq "$(named cl::method)" "cl::method cl::method.isra.0"
	assert_eq "$(named 'cl::method(int)')" "cl::method(int) cl::method(int).isra.0"
	assert_eq "$(named 'cl::meth*')" "cl::method cl::method.isra.0"
	assert_eq "$(named '_ZN2cl6meth*')" "cl::method cl::method.isra.0"
}

@test "clones: each has a row of its own, whose calls are counted" {
	json_run "$CL:cl_both" "$CL:cl_only" "$CL:cl_plain" "$CL:cl::method" -- "$CL" 7
	assert_json '[.[0].functions[] | [.name, .calls, .returns]] | sort' \
		'[["cl::method",7,7],["cl::method.isra.0",7,7],["cl_both",7,7],["cl_both.constprop.0.isra.1",21,21],["cl_both.isra.0",14,14],["cl_only.part.0",7,7],["cl_plain",7,7]]'
}

@test "clones: the arguments of a clone are not shown, those of the function are" {
	json_run "$CL:cl_both" --stream -- "$CL" 2
	output=$(jq -sc 'map([.function, .args]) | sort | unique' <<<"$output")
	assert_output '[["cl_both",{"a":0,"b":2}],["cl_both",{"a":1,"b":2}],["cl_both.constprop.0.isra.1",null],["cl_both.isra.0",null]]'
}

@test "clones: entries show no arguments of a clone" {
	json_run "$CL:cl_both" --stream --events entry -- "$CL" 1
	output=$(jq -sc 'map([.function, .args])' <<<"$output")
	assert_output '[["cl_both",{"a":0,"b":2}],["cl_both.isra.0",null],["cl_both.isra.0",null],["cl_both.constprop.0.isra.1",null],["cl_both.constprop.0.isra.1",null],["cl_both.constprop.0.isra.1",null]]'
}

@test "clones: the arguments of a clone are not shown when its calls are only counted" {
	json_run "$CL:cl_both" --count --stream --events entry -- "$CL" 1
	output=$(jq -sc 'map([.function, .args]) | sort | unique' <<<"$output")
	assert_output '[["cl_both",{"a":0,"b":2}],["cl_both.constprop.0.isra.1",null],["cl_both.isra.0",null]]'
}

@test "clones: keys and conditions on arguments leave clones out" {
	json_run "$CL:cl_both" --if 'a == 1' --key b --by b -- "$CL" 3
	assert_json '[.[0].functions[] | [.name, .calls, [.rows[] | [.key.b.value, .calls]]]]' \
		'[["cl_both",1,[[2,1]]]]'
}

@test "clones: list targets says why a clone has no known arguments" {
	fsn list targets "$CL:cl_both" --json
	assert_json '[.[] | [.name, .declared, .types_why]] | sort' \
		'[["cl_both",true,"DWARF"],["cl_both.constprop.0.isra.1",false,"a clone: the compiler may have changed its arguments"],["cl_both.isra.0",false,"a clone: the compiler may have changed its arguments"]]'
}

# As a configuration declares arguments of the function, which its clones need not have.
@test "clones: the arguments that a configuration declares are not the clones'" {
	cat >"$BATS_TEST_TMPDIR/c.json" <<-END
		{"g_func_sym": {"cl_both": {"symbol": "cl_both", "args": ["int first"]}}, "lib": "$CL"}
	END
	fsn attach --config "$BATS_TEST_TMPDIR/c.json" --dry-run --json
	assert_json '[.[0].functions[] | [.name, .args]] | sort' \
		'[["cl_both",["int first"]],["cl_both.constprop.0.isra.1",[]],["cl_both.isra.0",[]]]'
}
