# SPDX-License-Identifier: BSD-2-Clause
# funcsnoop attach: which functions, of which files, and that their calls are counted.
# bats file_tags=bpf

load helpers

LIB=$FIX/libfix.so
REAL=$FIX/libfix.so.1 # what that is a link to

names() { # functions of the group that $output tells of
	json '[.[0].functions[] | select(.refused | not) | .name] | sort | join(" ")'
}

# --- how functions are named ----------------------------------------------------------

@test "attach: functions selected by name are counted separately" {
	need_bpf
	fsn attach g fix_add fix_ret fix_void --lib "$LIB"
	assert_stderr ""
	assert_output_match "^g: 3 functions of $LIB \($REAL\), "
	capture "$FIX/call" add 100
	capture "$FIX/call" ret 10
	capture "$FIX/call" fail 7
	assert_numbers g "fix_add 100 0 100 0 0 0
fix_ret 10 0 10 0 0 0"
	fsn detach g
}

@test "attach: a glob reports the matches that it skips" {
	need_bpf
	fsn attach g 'fix_[ai]*' --lib "$LIB" --json
	assert_stderr_match "^funcsnoop attach: left out: 'fix_ifunc': an IFUNC"
	assert_eq "$(names)" "fix_add fix_alias_a fix_args6"
	assert_json '[.[0].functions[] | select(.refused) | .name]' '["fix_ifunc"]'
	assert_json '.[0].functions[] | select(.refused) | .refused | length > 10' true
	capture "$FIX/call" add 3
	assert_numbers g "fix_add 3 0 3 0 0 0"
	fsn detach g
	fsn attach g 'fix_[ai]*' --lib "$LIB" --quiet
	assert_output ""
	assert_stderr ""
	fsn detach g
}

@test "attach: --regex selects the functions whose names match" {
	need_bpf
	fsn attach g -r '^fix_(add|ret)$' --lib "$LIB" --json
	assert_eq "$(names)" "fix_add fix_ret"
	fsn detach g
	fsn attach g --regex 'ret' 'sl[e]+p' --lib "$LIB" --json
	assert_eq "$(names)" "fix_ret fix_sleep_us"
	fsn detach g
	fsn -s 1 attach g -r 'fix_(' --lib "$LIB"
	assert_stderr_match "fix_\("
}

@test "attach: two names of one function are one function, counted once per call" {
	need_bpf
	fsn attach g fix_alias_b fix_alias_a 'fix_alias*' --lib "$LIB"
	capture "$FIX/call" alias_a 10
	capture "$FIX/call" alias_b 5
	fsn stats g --json
	assert_json '.[0].functions | map([.calls, .returns])' '[[15,15]]'
	fsn detach g
}

@test "attach: each version of a symbol is a function of its own" {
	need_bpf
	fsn attach g 'fix_ver*' --lib "$LIB" --json
	assert_eq "$(names)" "fix_ver fix_ver@FIX_1"
	capture "$FIX/call" ver 10
	capture "$FIX/call" ver_old 3
	assert_numbers g "fix_ver 10 0 10 0 0 0
fix_ver@FIX_1 3 0 3 0 0 0"
	fsn detach g
	fsn attach g fix_ver@FIX_1 --lib "$LIB"
	capture "$FIX/call" ver 10
	capture "$FIX/call" ver_old 3
	assert_numbers g "fix_ver@FIX_1 3 0 3 0 0 0"
	fsn detach g
	fsn attach g fix_ver --lib "$LIB"
	capture "$FIX/call" ver 10
	capture "$FIX/call" ver_old 3
	assert_numbers g "fix_ver 10 0 10 0 0 0"
	fsn detach g
}

@test "attach: name+0x0 and a file offset select the function that starts there" {
	local offset

	need_bpf
	fsn attach g fix_add+0x0 --lib "$LIB" --json
	offset=$(json '.[0].functions[0].offset')
	capture "$FIX/call" add 10
	fsn stats g --json
	assert_json '.[0].functions | map([.symbol, .calls, .returns])' '[["fix_add",10,10]]'
	fsn detach g
	fsn attach g "$(printf '+0x%x' "$offset")" --lib "$LIB" --json
	assert_eq "$(names)" "fix_add"
	capture "$FIX/call" add 10
	assert_numbers g "fix_add 10 0 10 0 0 0"
	fsn detach g
}

@test "attach: name+0xOFF is counted without times, and fails between instructions" {
	need_bpf
	need_arch x86_64
	fsn attach g fix_add+0x3 --lib "$LIB" --json
	assert_json '.[0].functions[0].exit' none
	capture "$FIX/call" add 10
	assert_numbers g "fix_add+0x3 10 0 - 0 0 10"
	fsn detach g
	fsn -s 1 attach g fix_add+0x1 --lib "$LIB"
	assert_stderr_match "^funcsnoop attach: cannot probe 'fix_add\+0x1' .*middle of an instruction"
}

@test "attach: LIBRARY:FUNCTION, as in funccount, selects a function of that library" {
	need_bpf
	fsn attach g "$LIB:fix_add" "p:$FIX/libengine.so:eng_leaf" --json
	assert_eq "$(names)" "eng_leaf fix_add"
	capture "$FIX/call" add 10
	capture "$FIX/engine" leaf 5
	assert_numbers g "eng_leaf 5 0 5 0 0 0
fix_add 10 0 10 0 0 0"
	fsn detach g
}

@test "attach: C++ names select functions, with and without arguments" {
	need_bpf
	fsn attach g 'hz::over' 'hz::Linear::forward(double)' --lib "$FIX/libhazcxx.so" --json
	assert_json '[.[0].functions[] | [.symbol, (.demangled | startswith("hz::"))]]
		| map(.[1]) | all' true
	assert_json '.[0].functions | length' 3
	capture "$FIX/hazcxx" names 10
	fsn stats g --json
	assert_sound
	assert_json '.[0].functions | map([.calls, .returns]) | unique' '[[10,10]]'
	assert_json '.[0].functions | length' 3
	fsn detach g
}

# --- how libraries are named ----------------------------------------------------------

# Alone, because all processes are searched for libraries by name.
# bats test_tags=alone
@test "attach: --lib finds a library by path, soname and stem" {
	local lib

	need_bpf
	export LD_LIBRARY_PATH=$FIX
	for lib in "$LIB" "$REAL" libfix.so.1 libfix.so libfix fix; do
		fsn attach g fix_add --lib "$lib" --json
		assert_json '.[0].functions[0].library' "$REAL"
		fsn detach g
	done
	fsn -s 1 attach g fix_add --lib libfix.so.2
	fsn -s 1 attach g fix_add --lib libfi
}

# Alone, because all processes are searched for libraries by name.
# bats test_tags=alone
@test "attach: --lib finds a library in the mappings of a running process" {
	need_bpf
	start_bg call "$FIX/call" --wait add 10
	wait_ready call
	fsn attach g fix_add --lib fix --pid "$(bg_pid call)" --json
	assert_json '.[0].functions[0].library' "$REAL"
	fsn attach all-of-them fix_add --lib libfix.so.1 --json
	assert_json '.[0].functions[0].library' "$REAL"
	tell call
	wait_bg call
	assert_numbers g "fix_add 10 0 10 0 0 0"
	assert_numbers all-of-them "fix_add 10 0 10 0 0 0"
	fsn detach --all
}

@test "attach: each file is probed once, also if several --lib name it" {
	need_bpf
	fsn attach g fix_add --lib "$LIB" --lib "$REAL" --lib "$FIX/stripped/libfix.so.1" --json
	assert_json '.[0].functions | map([.name, .library])' \
		"[[\"fix_add\",\"$REAL\"],[\"fix_add\",\"$FIX/stripped/libfix.so.1\"]]"
	capture "$FIX/call" add 10
	LD_LIBRARY_PATH=$FIX/stripped capture "$FIX/call" add 4
	fsn stats g --json
	assert_json '.[0].functions | sort_by(.calls) | map([.calls, .library])' \
		"[[4,\"$FIX/stripped/libfix.so.1\"],[10,\"$REAL\"]]"
	fsn detach g
}

@test "attach: functions of a static executable are counted" {
	need_bpf
	fsn attach g fix_add fix_nested --lib "$FIX/call-static"
	capture "$FIX/call-static" add 100
	capture "$FIX/call-static" --arg 5 nested 4
	assert_numbers g "fix_add 120 0 120 0 0 0
fix_nested 4 0 4 0 0 0"
	fsn detach g
}

@test "attach: a stripped library has exported functions, and others with a debug file" {
	local kind

	need_bpf
	for kind in debuglink minidebug; do
		fsn attach g fix_local fix_add --lib "$FIX/$kind/libfix.so.1"
		LD_LIBRARY_PATH=$FIX/$kind capture "$FIX/call" --arg 5 local_call 2
		LD_LIBRARY_PATH=$FIX/$kind capture "$FIX/call" add 3
		assert_numbers g "fix_add 3 0 3 0 0 0
fix_local 10 0 10 0 0 0"
		fsn detach g
	done
	fsn attach g fix_add --lib "$FIX/stripped/libfix.so.1"
	LD_LIBRARY_PATH=$FIX/stripped capture "$FIX/call" add 3
	assert_numbers g "fix_add 3 0 3 0 0 0"
	fsn detach g
	fsn -s 1 attach g fix_local --lib "$FIX/stripped/libfix.so.1"
	assert_stderr_match "^funcsnoop attach: no function 'fix_local' in "
}

@test "attach: calls are counted each time a program loads the library again" {
	need_bpf
	fsn attach g fix_add --lib "$LIB"
	capture "$FIX/dlcall" "$REAL" fix_add 10 5
	assert_numbers g "fix_add 50 0 50 0 0 0"
	fsn detach g
}

# --- which processes ------------------------------------------------------------------

@test "attach: counts running processes and processes started later" {
	need_bpf
	start_bg early "$FIX/call" --wait --threads 2 add 100
	wait_ready early
	fsn attach g fix_add --lib "$LIB"
	tell early
	wait_bg early
	capture "$FIX/call" add 11
	assert_numbers g "fix_add 211 0 211 0 0 0"
	assert_json '.[0].functions[0].processes | map(.calls) | sort' '[11,200]'
	fsn detach g
}

@test "attach: sixteen threads in each of four processes lose no call" {
	need_bpf
	fsn attach g fix_add --lib "$LIB"
	capture "$FIX/call" --procs 4 --threads 16 add 100
	assert_output_match "calls=6400 .*wrong=0$"
	assert_numbers g "fix_add 6400 0 6400 0 0 0"
	assert_json '.[0].functions[0].processes | map([.calls, .returns])' \
		'[[1600,1600],[1600,1600],[1600,1600],[1600,1600]]'
	fsn detach g
}

@test "attach: calls of children of fork, vfork and posix_spawn are counted" {
	local how

	need_bpf
	fsn attach g fix_add --lib "$LIB"
	for how in fork vfork spawn; do
		capture "$FIX/call" --manyprocs 5 --spawn $how add 20
		assert_numbers g "fix_add 100 0 100 0 0 0"
		assert_json '.[0].functions[0].processes | length' 5
		fsn reset g
	done
	fsn detach g
}

# --- how ----------------------------------------------------------------------------------

@test "attach: --count counts entries without timing them" {
	need_bpf
	fsn attach g fix_add fix_fail --lib "$LIB" --count
	assert_ends g none
	capture "$FIX/call" add 100
	capture "$FIX/call" --arg -1 fail 10
	assert_numbers g "fix_add 100 0 - 0 0 100
fix_fail 10 0 - 0 0 10"
	assert_json '.[0].functions[0] | [.errors, .slow, .total_ns, .min_ns, .avg_ns, .max_ns,
		.p50_ns, .p90_ns, .p99_ns, .p999_ns, .return_codes, .histogram]' \
		'[null,null,null,null,null,null,null,null,null,null,[],[]]'
	assert_json '.[0].functions[0].processes | map([.calls, .returns, .total_ns, .max_ns,
		.errors, .slow])' '[[100,null,null,null,null,null]]'
	fsn detach g
}

@test "attach: --exit none counts calls without timing them" {
	need_bpf
	fsn attach g fix_add --lib "$LIB" --exit none --json
	assert_json '.[0].functions[0].exit' none
	capture "$FIX/call" add 100
	assert_numbers g "fix_add 100 0 - 0 0 100"
	fsn detach g
}

@test "attach: --exit return warns about its risks for the program" {
	fsn attach g fix_add --lib "$LIB" --exit return --dry-run --json
	assert_json '.[0].functions[0] | [.exit, (.exit_why | test("exception"))]' '["return",true]'
	fsn attach g fix_add --lib "$LIB" --dry-run --json
	assert_json '.[0].functions[0].exit_why | test("exception")' false
}

@test "attach: --site entry keeps the probe at the entry" {
	need_arch x86_64
	fsn attach g asm_endbr_push --lib "$FIX/libinsn.so" --dry-run --json
	assert_json '.[0].functions[0] | .site_offset - .offset' 4
	fsn attach g asm_endbr_push --lib "$FIX/libinsn.so" --dry-run --json --site entry
	assert_json '.[0].functions[0] | .site_offset - .offset' 0
	need_bpf
	fsn attach g asm_endbr_push --lib "$FIX/libinsn.so" --site entry
	capture "$FIX/asmcall" asm_endbr_push 20
	assert_numbers g "asm_endbr_push 20 0 20 0 0 0"
	fsn detach g
}

@test "attach: --no-processes keeps no statistics of processes" {
	need_bpf
	fsn attach g fix_add --lib "$LIB" --no-processes
	capture "$FIX/call" --procs 2 add 10
	assert_numbers g "fix_add 20 0 20 0 0 0"
	assert_json '.[0].functions[0].processes' '[]'
	assert_json '.[0].health.lost_processes' 0
	fsn detach g
}

@test "attach: --slow marks slow calls by one threshold, or by one for each function" {
	need_bpf
	fsn attach g fix_add fix_sleep_us fix_ret --lib "$LIB" --slow 3600s --slow fix_sleep_us=20ms \
		--slow 'fix_r*=0ns'
	capture "$FIX/call" add 10
	capture "$FIX/call" ret 10
	capture "$FIX/call" --arg 20000 sleep_us 3
	fsn stats g --json
	assert_json '.[0].functions | sort_by(.name) | map([.name, .slow])' \
		'[["fix_add",0],["fix_ret",10],["fix_sleep_us",3]]'
	fsn detach g
	fsn -s 1 attach g fix_add --lib "$LIB" --slow nosuch=1ms
	assert_stderr "funcsnoop attach: --slow: no function 'nosuch' in the group"
}

@test "attach: --link selects the kind of link, and list shows it" {
	local mode

	need_link session
	for mode in session multi perf; do
		fsn attach $mode fix_add --lib "$LIB" --link $mode --exit return
	done
	fsn list --json
	assert_json 'map([.name, .link])' \
		'[["multi","multi"],["perf","perf"],["session","session"]]'
	capture "$FIX/call" add 10
	for mode in session multi perf; do
		assert_numbers $mode "fix_add 10 0 10 0 0 0"
	done
	fsn detach --all
}

# --- groups' names ----------------------------------------------------------------------

@test "attach: a second group of the same name fails and changes nothing" {
	need_bpf
	fsn attach g fix_add --lib "$LIB"
	capture "$FIX/call" add 10
	fsn -s 1 attach g fix_ret --lib "$LIB"
	assert_output ""
	assert_stderr_match "^funcsnoop attach: .*group 'g' is already attached$"
	assert_stderr_match "^hint: use --replace to replace it, or --name NAME to attach under another name$"
	assert_numbers g "fix_add 10 0 10 0 0 0"
	fsn detach g
}

@test "attach: --replace replaces a group or creates it" {
	need_bpf
	fsn attach g fix_add --lib "$LIB" --replace
	capture "$FIX/call" add 10
	fsn attach g fix_ret --lib "$LIB" --replace
	capture "$FIX/call" add 10
	capture "$FIX/call" ret 3
	assert_numbers g "fix_ret 3 0 3 0 0 0"
	fsn list --json
	assert_json 'map(.name)' '["g"]'
	# An attempt that fails leaves the old one.
	fsn -s 1 attach g nosuch --lib "$LIB" --replace
	assert_numbers g "fix_ret 3 0 3 0 0 0"
	fsn detach g
}

@test "attach: --name gives the group another name" {
	need_bpf
	fsn attach g fix_add --lib "$LIB" --name other --json
	assert_json '.[0].group' other
	fsn list --json
	assert_json 'map(.name)' '["other"]'
	fsn -s 1 attach g fix_add --lib "$LIB" --name list~
	fsn detach other
}

@test "attach: groups on one function count independently" {
	need_bpf
	fsn attach a fix_add --lib "$LIB"
	capture "$FIX/call" add 5
	fsn attach b fix_add --lib "$LIB"
	capture "$FIX/call" add 10
	assert_numbers a "fix_add 15 0 15 0 0 0"
	assert_numbers b "fix_add 10 0 10 0 0 0"
	fsn detach a
	capture "$FIX/call" add 1
	assert_numbers b "fix_add 11 0 11 0 0 0"
	fsn detach b
}

# --- --dry-run ----------------------------------------------------------------------------

@test "attach: --dry-run explains, attaches nothing and needs no privilege" {
	local as_nobody=()

	need_unprivileged "$REAL"
	((EUID != 0)) || as_nobody=(setpriv --reuid=65534 --clear-groups)
	capture "${as_nobody[@]}" "$FUNCSNOOP" attach g fix_add fix_ret --lib "$LIB" --dry-run --json
	assert_json 'map([.group, (.functions | map(.name))])' '[["g",["fix_add","fix_ret"]]]'
	assert_stderr ""
	capture "${as_nobody[@]}" "$FUNCSNOOP" attach g fix_add -n --lib "$LIB"
	assert_eq "$(tr -s ' ' <<<"${lines[0]}")" \
		"FUNCTION LIBRARY OFFSET SITE INSTRUCTION EXIT WHY"
	assert_output_match "^fix_add +$REAL +0x[0-9a-f]+ +\+0 "
	[[ ! -e $FUNCSNOOP_BPFFS/funcsnoop/g ]]
}

@test "attach: the command, --dry-run and 'list functions' describe functions alike" {
	local dry attached listed

	need_bpf
	fsn attach g fix_add fix_ret --lib "$LIB" --dry-run --json
	dry=$output
	assert_json '.[0].functions[0] | keys_unsorted' \
		'["name","symbol","demangled","kind","library","build_id","offset","site_offset","site_why","instruction","exit","exit_why","limited","args","declared","ret","types_why","refused"]'
	assert_json '.[0].functions[0] | [.name, .symbol, .demangled, .library, .refused]' \
		"[\"fix_add\",\"fix_add\",null,\"$REAL\",null]"
	assert_json '.[0].functions[0] | map_values(type) | [.build_id, .offset, .site_offset,
		.site_why, .instruction, .exit, .exit_why] | join(" ")' \
		"string number number string string string string"
	assert_json '.[0].functions[0].build_id' "$(readelf -n "$REAL" | sed -n 's/.*Build ID: //p')"
	fsn attach g fix_add fix_ret --lib "$LIB" --json
	attached=$output
	fsn list functions g --json
	listed=$output
	assert_eq "$(jq -c "map(del(.overhead))" <<<"$attached")" "$(jq -c "map({group, functions, aliases})" <<<"$dry")"
	assert_eq "$listed" "$attached"
	fsn detach g
}

# --- --config ------------------------------------------------------------------------------

# The file of the manual, with the fixtures' functions.
write_config() {
	cat >"$BATS_TEST_TMPDIR/config.json" <<-END
	{ "fix_func_sym":   { "plus": "fix_add", "minus": "fix_fail" },
	  "custom_sym":     { "leaf": "eng_leaf" },
	  "hz_func_sym":    { "outer": { "symbol": "hzx_outer", "slow": "0ns", "ret": "long" } },
	  "lib":            "$LIB",
	  "libs":           { "custom": "$FIX/libengine.so", "hz": "$FIX/libhazcxx.so" } }
	END
}

@test "attach: --config attaches all groups of a file or the named ones" {
	need_bpf
	write_config
	fsn attach --config "$BATS_TEST_TMPDIR/config.json" --json
	assert_json 'map([.group, (.functions | map(.name))]) | sort' \
		'[["custom",["leaf"]],["fix",["minus","plus"]],["hz",["outer"]]]'
	capture "$FIX/call" add 10
	capture "$FIX/call" --arg 5 fail 3
	capture "$FIX/engine" leaf 7
	capture "$FIX/hazcxx" throw 4
	assert_numbers fix "minus 3 0 3 0 0 0
plus 10 0 10 0 0 0"
	assert_numbers custom "leaf 7 0 7 0 0 0"
	fsn stats hz --json
	assert_json '.[0].functions[0] | [.name, .symbol, .calls, .returns, .slow]' \
		'["outer","hzx_outer",4,2,2]'
	fsn detach --all
	fsn attach --config "$BATS_TEST_TMPDIR/config.json" custom
	fsn list --json
	assert_json 'map(.name)' '["custom"]'
	fsn detach custom
	fsn attach --config "$BATS_TEST_TMPDIR/config.json" custom --name mine
	fsn detach mine
}

@test "attach: an invalid configuration fails with line and column and attaches nothing" {
	need_bpf
	write_config
	fsn -s 1 attach --config "$BATS_TEST_TMPDIR/config.json" nosuch
	assert_stderr_match "^funcsnoop attach: no group 'nosuch' in "
	fsn -s 2 attach --config "$BATS_TEST_TMPDIR/config.json" --name x
	fsn -s 1 attach --config /nosuch.json
	assert_stderr_match "^funcsnoop attach: .*'?/nosuch.json'?: No such file or directory$"
	printf '{ "a_sym": {\n  "x": "fix_add",\n  "y": }\n}\n' >"$BATS_TEST_TMPDIR/bad.json"
	fsn -s 1 attach --config "$BATS_TEST_TMPDIR/bad.json" --json
	assert_stderr_match "^funcsnoop attach: .*bad\.json:3:8: "
	assert_json '.error | test("bad.json:3:8: ")' true
	printf '{ "a_sym": { "x": 5 } }\n' >"$BATS_TEST_TMPDIR/type.json"
	fsn -s 1 attach --config "$BATS_TEST_TMPDIR/type.json"
	assert_stderr_match "type\.json:1:[0-9]+: "
	fsn list --json
	assert_output '{"version":1,"groups":[]}'
}

# One of several groups that cannot be attached: none of a file stays behind.
@test "attach: attaches no group of a configuration if one of them fails" {
	need_bpf
	cat >"$BATS_TEST_TMPDIR/half.json" <<-END
	{ "a_sym": { "plus": "fix_add" }, "b_sym": { "none": "nosuch" }, "lib": "$LIB" }
	END
	fsn -s 1 attach --config "$BATS_TEST_TMPDIR/half.json"
	assert_stderr_match "^funcsnoop attach: .*'?nosuch"
	fsn list --json
	assert_output '{"version":1,"groups":[]}'
}

# --- a real library ------------------------------------------------------------------------

@test "attach: the cuda preset counts calls of a real runtime, and its errors by name" {
	local code

	need_bpf
	need_cuda
	fsn attach cuda --lib "$CUDART" --json
	assert_json '.[0].group' cuda
	assert_json_true '.[0].functions | map(select(.refused | not)) | length > 200'
	assert_json '[.[0].functions[] | select(.refused | not) | .exit] | unique | index("none")' null
	capture "$FIX/cudacall" "$CUDART" 100
	code=$(sed -n 's/^cudaMalloc \([0-9]*\) x100$/\1/p' <<<"$output")
	fsn stats cuda --json
	assert_sound
	assert_json '.[0].functions[] | select(.name == "cudaMalloc") | [.calls, .returns]' '[100,100]'
	if [[ $code == 35 ]]; then
		assert_json '.[0].functions[] | select(.name == "cudaMalloc")
			| [.errors, .return_codes]' \
			'[100,[{"code":35,"count":100,"name":"cudaErrorInsufficientDriver"}]]'
	fi
	assert_json '[.[0].functions[] | select(.name == "cudaDeviceSynchronize"
		or .name == "cudaGetDeviceCount") | .calls]' '[1,1]'
	fsn detach cuda
}

# Bounds that only a broken program misses.
@test "attach: attaching and reading a whole library take under ten seconds each" {
	local ms

	need_bpf
	need_cuda
	ms=$(ms_of "$FUNCSNOOP" attach cuda --lib "$CUDART")
	echo "# attach of the cuda preset: $ms ms" >&3
	assert_between "$ms" 0 10000 "attach, ms"
	ms=$(ms_of "$FUNCSNOOP" stats cuda --json)
	echo "# stats of the cuda preset: $ms ms" >&3
	assert_between "$ms" 0 10000 "stats, ms"
	fsn detach cuda
}

@test "attach: attaches no group of a configuration if one of them is attached" {
	need_bpf
	write_config
	fsn attach hz fix_add --lib "$LIB"
	fsn -s 1 attach --config "$BATS_TEST_TMPDIR/config.json"
	assert_stderr_match "group 'hz' is already attached$"
	fsn list --json
	assert_json 'map([.name, .libraries[0]])' "[[\"hz\",\"$REAL\"]]"
	fsn detach hz
}

# --- at every start of a machine -----------------------------------------------------------

# Runs the unit's command with a directory of the test.
start_unit() { # [-s STATUS] [OPTION...]
	local want=0 words

	if [[ $1 == -s ]]; then
		want=$2
		shift 2
	fi
	words=$(sed -n 's|^ExecStart=/usr/local/bin/funcsnoop ||p' \
		"$BATS_TEST_DIRNAME/../man/examples/funcsnoop-attach.service")
	words=${words/\/etc\/funcsnoop/$BATS_TEST_TMPDIR}
	# shellcheck disable=SC2086	# words
	fsn -s "$want" ${words% \$FUNCSNOOP_OPTIONS} "$@"
}

write_groups() { # DURATION
	mkdir -p "$BATS_TEST_TMPDIR/groups.d"
	echo "{ \"a_sym\": { \"fix_add\": \"fix_add\" }, \"lib\": \"$LIB\",
	       \"b_sym\": { \"fix_ret\": { \"symbol\": \"fix_ret\", \"slow\": \"$1\" } } }" \
		>"$BATS_TEST_TMPDIR/groups.d/10-a.json"
}

ids_of() { # GROUP: of its maps
	bpftool -j map show pinned "$FUNCSNOOP_BPFFS/funcsnoop/$1/stats" | jq .id
}

@test "unit: attaches missing groups and keeps unchanged ones" {
	local dir=$BATS_TEST_TMPDIR/groups.d a b

	need_bpf
	need_tool bpftool jq
	mkdir "$dir"
	start_unit
	assert_stderr "funcsnoop attach: no file of '$dir' ends in .json"
	write_groups 5ms
	start_unit
	a=$(ids_of a) b=$(ids_of b)
	capture "$FIX/call" add 3
	start_unit
	assert_output "a: already attached and up to date
b: already attached and up to date"
	assert_eq "$(ids_of a) $(ids_of b)" "$a $b" "maps"

	# One group changed; an invalid file, and one after it.
	write_groups 6ms
	echo '{' >"$dir/20-bad.json"
	echo "{ \"c_sym\": { \"fix_fail\": \"fix_fail\" }, \"lib\": \"$LIB\" }" >"$dir/30-c.json"
	echo '{' >"$dir/40-c.json.dpkg-old"
	start_unit -s 1
	assert_stderr "funcsnoop attach: group 'b' was out of date: attached again, its counters start at 0
funcsnoop attach: $dir/20-bad.json:2:1: the file ends too early
funcsnoop attach: 1 of 3 files of '$dir' failed"
	assert_eq "$(ids_of a)" "$a" "maps of a"
	[[ $(ids_of b) != "$b" ]]
	rm "$dir/20-bad.json"
	fsn stats a c --all --json
	assert_json '[.[].functions[0].calls]' '[3,0]'

	# Detached, of another layout, with other options.
	fsn detach c
	# shellcheck disable=SC2046	# a word a byte
	bpftool map update pinned "$FUNCSNOOP_BPFFS/funcsnoop/b/meta" key 0 0 0 0 value $(
		bpftool -j map lookup pinned "$FUNCSNOOP_BPFFS/funcsnoop/b/meta" key 0 0 0 0 |
			jq -r '.value[]' | sed '1s/.*/0xfe/')
	start_unit --mode 0644 -q
	assert_stderr ""
	b=$(ids_of b)
	[[ $(ids_of a) != "$a" ]]
	start_unit --mode 0644 --json
	assert_json '[.[].group]' '["a","b","c"]'
	assert_eq "$(ids_of b)" "$b" "maps of b"
	fsn detach a b c
	fsn -s 2 attach x --refresh --config "$dir"
	assert_stderr_match '^funcsnoop attach: --config with a directory takes no GROUP'
}

@test "attach: --refresh re-attaches for another --stacks or a re-created cgroup" {
	need_bpf
	fsn attach g fix_add --lib "$LIB" --stacks all
	fsn attach g fix_add --lib "$LIB" --stacks all --refresh
	assert_output "g: already attached and up to date"
	fsn attach g fix_add --lib "$LIB" --stacks python --refresh
	assert_stderr_match "^funcsnoop attach: group 'g' was out of date"
	own_cgroup cgroup.procs "no cgroup of its own"
	fsn attach g fix_add --lib "$LIB" --cgroup "$CGROUP" --replace
	fsn attach g fix_add --lib "$LIB" --cgroup "$CGROUP" --refresh
	assert_output "g: already attached and up to date"
	rmdir "$CGROUP"
	mkdir "$CGROUP"
	fsn attach g fix_add --lib "$LIB" --cgroup "$CGROUP" --refresh
	assert_stderr_match "^funcsnoop attach: group 'g' was out of date"
	capture "${IN_CGROUP[@]}" "$FIX/call" add 3
	fsn stats g --json
	assert_json '.[0].functions[0].calls' 3
	fsn detach g
	rmdir "$CGROUP"
}

@test "unit: reports a pipe or a directory among its files without blocking" {
	local dir=$BATS_TEST_TMPDIR/groups.d

	need_bpf
	write_groups 5ms
	mkfifo "$dir/05-pipe.json"
	mkdir "$dir/06-folder.json"
	start_unit -s 1
	assert_stderr "funcsnoop attach: '$dir/05-pipe.json' is not a regular file
funcsnoop attach: '$dir/06-folder.json' is not a regular file
funcsnoop attach: 2 of 3 files of '$dir' failed"
	fsn detach a b
}

@test "unit: a group that is in two files comes from the first one, at each start" {
	local dir=$BATS_TEST_TMPDIR/groups.d

	need_bpf
	write_groups 5ms
	echo "{ \"b_sym\": { \"fix_add\": \"fix_add\" }, \"lib\": \"$LIB\" }" >"$dir/20-b.json"
	echo '{ "c_sym": { "x": "fix_x" }, "lib": "/nowhere/libnone.so" }' >"$dir/30-c.json"
	echo "{ \"c_sym\": { \"fix_add\": \"fix_add\" }, \"lib\": \"$LIB\" }" >"$dir/40-c.json"
	start_unit -s 1 -q
	assert_stderr "funcsnoop attach: $dir/20-b.json: group 'b' is that of $dir/10-a.json
funcsnoop attach: $dir/30-c.json: cannot open '/nowhere/libnone.so': No such file or directory
funcsnoop attach: $dir/40-c.json: group 'c' is that of $dir/30-c.json
funcsnoop attach: 3 of 4 files of '$dir' failed"
	start_unit -s 1
	assert_output "a: already attached and up to date
b: already attached and up to date"
	fsn detach a b
}

@test "attach: --refresh re-attaches a library that was replaced" {
	local own=$BATS_TEST_TMPDIR/libown.so

	need_bpf
	cp "$LIB" "$own"
	fsn attach g fix_add --lib "$own" --refresh
	refute_output_match counts
	fsn attach g fix_add --lib "$own" --refresh
	assert_output "g: already attached and up to date"
	cp "$LIB" "$own.new"
	mv "$own.new" "$own"
	fsn attach g fix_add --lib "$own" --refresh
	assert_stderr_match "^funcsnoop attach: group 'g' was out of date"
	fsn list --json
	assert_json '.[0].stale' false
	fsn detach g
}
