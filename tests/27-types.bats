#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause
# Types of arguments without a declaration: from debug information in all its forms.

load helpers

P=$FIX/proto

setup() {
	common_setup
	need_tool jq
}

# "NAME ARGS -> RET" of functions that can be probed: FUNCTION...
prototypes() {
	fsn list targets "$@" --json
	jq -r '.[] | "\(.name)(\(.args | join(", "))) -> \(.ret): \(.types_why)"' <<<"$output"
}

@test "types: arguments are read from debug information in all its places" {
	local copy=$BATS_TEST_TMPDIR/proto file want

	want='pr_copy(enum pr_dir dir, pr_bytes bytes, const char *path, char *buf) -> int
pr_many(signed char a, short unsigned int b, bool c, pr_done *done, int e, int f, unsigned char g, long int h) -> int
pr_mixed(struct pr_point p, float f, struct pr_box box, int after) -> long int
pr_print(const char *format) -> int
pr_walk(const struct pr_desc *desc, int n) -> long int
pr_wide(int a, struct pr_large large, __int128 wide, struct pr_words dim, int last) -> struct pr_large'
	for file in "$P" "$FIX"/{split,gz,dwarf4}/proto; do
		assert_eq "$(prototypes "$file:pr_*" | grep -v pr_part)" \
			"$(sed 's/$/: DWARF/' <<<"$want")" "$file"
	done
	file=$(realpath "$FIX/debuglink/proto")
	assert_eq "$(prototypes "$file:pr_*" | grep -v pr_part)" \
		"$(sed "s,$,: DWARF of $file.debug," <<<"$want")"
	assert_eq "$(prototypes "$FIX/stripped/proto:pr_walk")" \
		"pr_walk() -> null: no debug information in the file, and no debug file of it"
	cp "$FIX/split/proto" "$copy"
	fsn list targets "$copy:pr_print"
	assert_output_match '[(]const char [*]format, [.]{3}[)] -> int$'
}

@test "types: the arguments of a clone are not known, and the reason is given" {
	local part

	part=$(nm "$P" | awk '$3 ~ /^pr_part[.]/ { print $3 }')
	[[ -n $part ]] || skip "this compiler makes no part of a function"
	assert_eq "$(prototypes "$P:$part")" \
		"$part() -> null: a clone: the compiler may have changed its arguments"
}

@test "types: methods have their object, and empty objects use no register" {
	[[ -x $FIX/protocxx ]] || skip "no C++ compiler"
	assert_eq "$(prototypes "$FIX/protocxx:_ZNK5shape6Circle4areaEi" \
		"$FIX/protocxx:_ZN5shape6Circle5countEi" \
		"$FIX/protocxx:_ZN5shape6CircleC1EiNS_4SideE" | sort)" \
		'_ZN5shape6Circle5countEi(int of) -> int: DWARF
_ZN5shape6CircleC1EiNS_4SideE(Circle *const this, int r, Side side) -> void: DWARF
_ZNK5shape6Circle4areaEi(const Circle *const this, int times) -> int: DWARF'
}

@test "types: keys, sums, conditions and single calls have arguments by name" {
	need_bpf
	fsn attach a "$P:pr_copy" --key dir,path --sum bytes --slow 0ns
	capture "$P"
	fsn stats a --by dir,path --format csv --sort calls
	assert_eq "$(tr -d '\r' <<<"$output" | awk -F, '
		NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next }
		{ print $at["dir"], $at["path"], $at["calls"], $at["sum_bytes"] }' | sort)" \
		'PR_IN one 1 100
PR_IN two 1 20
PR_OUT one 1 5'
	fsn stats a --slow --json
	assert_json '.[0].slow_calls | map(.args | [.dir, .bytes, .path, (.buf | startswith("0x"))])' \
		'[["PR_IN",100,"one",true],["PR_IN",20,"two",true],["PR_OUT",5,"one",true]]'
	assert_json '.[0].slow_calls | map(.ret)' '[101,21,205]'
	fsn list functions a --types
	assert_output_match '^pr_copy[(]enum pr_dir dir, .*[)] -> int +DWARF$'
	fsn list functions a --json
	assert_json '.[0].functions[] | [.args[1], .declared, .ret, .types_why]' \
		'["pr_bytes bytes",true,"int","DWARF"]'
	fsn attach a "$P:pr_copy" --if 'dir == PR_OUT && path == "one"' --replace
	capture "$P"
	fsn stats a --json
	assert_json '.[0].functions[0].calls' 1
	fsn detach a
}

@test "types: arguments are read correctly next to those in other registers" {
	need_bpf
	fsn attach a "$P:pr_mixed" "$P:pr_many" "$P:pr_wide" --slow 0ns
	capture "$P"
	fsn stats a --slow --json
	assert_json '.[0].slow_calls | map(select(.function == "pr_mixed") | .args | [.f, .after])' \
		'[[null,7]]'
	assert_json '.[0].slow_calls | map(select(.function == "pr_many")
		| .args | [.a, .b, .c, .e, .f, .g, .h])' '[[-1,2,true,5,6,7,-9]]'
	assert_json '.[0].slow_calls | map(select(.function == "pr_wide") | .args | [.a, .dim, .last])' \
		'[[1,[4,5,6],11]]'
	fsn detach a
	[[ -x $FIX/protocxx ]] || return 0
	fsn attach a "$FIX/protocxx:_ZN5shape*" --slow 0ns
	capture "$FIX/protocxx"
	fsn stats a --slow --json
	assert_json '[.[0].slow_calls[].args | .times // .of // .n // .r | select(.)]
		| unique' '[40,41,43,44,45]'
	fsn detach a
}

@test "types: hints name debug information, or similar names for a wrong one" {
	need_bpf
	fsn -s 2 attach a "$FIX/stripped/proto:pr_copy" --key dir
	assert_stderr "funcsnoop attach: --by 'dir': no function has such an argument
hint: 'pr_copy': no debug information in the file, and no debug file of it; declare \"args\" in a configuration, or use arg1 to arg6"
	fsn -s 2 attach a "$P:pr_copy" --sum byte
	assert_stderr "funcsnoop attach: --sum 'byte': no function has such an argument
hint: did you mean 'bytes'"
	fsn -s 2 attach a "$P:pr_copy" --if 'byte > 5'
	assert_stderr_match "no function has an argument 'byte'"
	assert_stderr_match "hint: did you mean 'bytes'"
	fsn -s 2 attach a "$P:pr_mixed" --key p
	assert_stderr_match "--by 'p' is a structure"
	fsn -s 2 attach a "$P:pr_mixed" --key f
	assert_stderr_match "--by 'f' is a floating point number, which programs can't see"
	fsn list
	assert_output ""
}

@test "types: --dry-run shows prototypes" {
	fsn attach a "$P:pr_walk" --dry-run -v
	assert_output_match '^pr_walk[(]const struct pr_desc [*]desc, int n[)] -> long int +DWARF$'
	fsn attach a "$P:pr_walk" --dry-run --json
	assert_json '.[0].functions[0] | [.args, .types_why]' \
		'[["const struct pr_desc *desc","int n"],"DWARF"]'
	fsn -s 2 attach a "$P:pr_walk" -v
	assert_stderr_match '^funcsnoop attach: --verbose goes with --dry-run$'
	fsn -s 2 list --types
	assert_stderr_match "^funcsnoop list: --types goes with 'list functions'$"
}

@test "types: assembly functions have registers instead of arguments" {
	need_arch x86_64
	fsn attach g asm_frame --lib "$FIX/libinsn.so" --dry-run --json
	assert_json '.[0].functions[0] | [.args, .declared, .types_why]' \
		'[[],false,"it is written in assembler, which declares no arguments"]'
}
