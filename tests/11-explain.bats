# SPDX-License-Identifier: BSD-2-Clause
# attach --dry-run: for each function and file, where and how it would be probed, or why not.

load helpers

LIB=$FIX/libfix.so
REAL=$FIX/libfix.so.1

setup() {
	common_setup
	HERE=$BATS_TEST_TMPDIR
	NOBODY=()
	((EUID != 0)) || NOBODY=(setpriv --reuid=65534 --clear-groups)
}

# As a user who may attach nothing.
dry() { # [-s STATUS] ARG...
	local opts=()

	if [[ $1 == -s ]]; then
		opts=(-s "$2")
		shift 2
	fi
	capture "${opts[@]}" "${NOBODY[@]}" "$FUNCSNOOP" attach g "$@" --dry-run
}

# The table of files, columns parted by one space.
files_table() {
	sed -n '/^$/,$p' <<<"$output" | tail -n +2 | tr -s ' ' | sed 's/ $//'
}

@test "dry run: shows functions with their file, without privileges" {
	need_unprivileged "$REAL"
	dry fix_add fix_alias_b --lib "$LIB"
	assert_stderr ""
	assert_output_match "^fix_add +$REAL +0x[0-9a-f]+ +\+[0-9]+ .* ret "
	assert_output_match "^fix_alias_b \(fix_alias_a\) +$REAL "
	assert_eq "$(files_table)" "LIBRARY FUNCTIONS FOUND WHY NOT
$LIB ($REAL) 2 path"
	dry 'fix_a*' --lib "$LIB" --json
	assert_json '.[0] | [.libraries, .missing, .aliases]' \
		"[[{\"found\":\"path\",\"functions\":3,\"path\":\"$REAL\",\"refused\":null,\"same_as\":null,\"typed\":\"$LIB\"}],[],[{\"also\":[\"fix_alias_b\"],\"name\":\"fix_alias_a\"}]]"
}

@test "dry run: lists missing and refused functions with the others, status 1" {
	need_unprivileged "$REAL"
	dry -s 1 fix_add nosuch fix_ifunc --lib "$LIB"
	assert_output_match "^fix_add +$REAL .* ret "
	assert_output_match "^nosuch +- +- +- +- +missing +no such symbol$"
	assert_output_match "^fix_ifunc .* refused +an IFUNC: "
	assert_stderr_match "^funcsnoop attach: function 'fix_ifunc' in .* can't be probed: an IFUNC"
	dry -s 1 fix_add nosuch fix_ifunc --lib "$LIB" --json
	assert_json '.groups[0] | [.missing, (.functions | map([.name, (.refused | . and
		test("IFUNC"))]))]' '[["nosuch"],[["fix_add",false],["fix_ifunc",true]]]'
	assert_json_true '.error | test("IFUNC")'
	dry -s 1 nosuch --lib "$LIB" --json
	assert_json '[.groups[0].functions, .groups[0].missing]' '[[],["nosuch"]]'
	assert_json '.error' "no function 'nosuch' in $REAL"
}

@test "dry run: reports an instruction that cannot be probed" {
	need_arch x86_64
	need_unprivileged "$FIX/libinsn.so"
	dry -s 1 asm_lock+0x0 asm_ret fix_nosuch --lib "$FIX/libinsn.so" --site entry
	assert_output_match "^asm_ret "
	assert_output_match "^asm_lock[+]0x0 .* refused .*lock prefix"
	dry asm_ret 'asm_l*' --lib "$FIX/libinsn.so" --site entry --json
	assert_json_true '.[0].functions | map(select(.refused)) | map(.name) | index("asm_lock")
		!= null'
}

@test "dry run: two paths of one file are one library, two files are two" {
	ln "$REAL" "$HERE/libhard.so" 2>/dev/null || cp "$REAL" "$HERE/libhard.so"
	[[ $REAL -ef $HERE/libhard.so ]] || skip "no hard links between these folders"
	cp "$REAL" "$HERE/libcopy.so"
	fsn attach g fix_add --lib "$REAL" --lib "$HERE/libhard.so" --lib "$HERE/libcopy.so" -n
	assert_eq "$(files_table | sort)" "$(sort <<-END
	LIBRARY FUNCTIONS FOUND WHY NOT
	$REAL 1 path
	$HERE/libcopy.so 1 path
	$HERE/libhard.so - - the same file as $REAL
	END
	)"
	fsn attach g fix_add --lib "$REAL" --lib "$HERE/libhard.so" -n --json
	assert_json '.[0].libraries | map([.path, .same_as, .functions])' \
		"[[\"$REAL\",null,1],[\"$HERE/libhard.so\",\"$REAL\",0]]"
}

@test "dry run: skips a file with a matching name that is not a library" {
	cp "$REAL" "$HERE/libonlythere.so.1"
	head -c 1000 "$REAL" >"$HERE/libonlythere.so.2"
	echo hello >"$HERE/libonlythere.so.3"
	mkfifo "$HERE/libonlythere.so.4"
	LD_LIBRARY_PATH=$HERE fsn attach g fix_add --lib onlythere --dry-run --json
	assert_json '.[0].libraries | map(.path | sub(".*/"; "")) | sort' \
		'["libonlythere.so.1","libonlythere.so.2","libonlythere.so.3","libonlythere.so.4"]'
	assert_json '.[0].libraries | map(select(.refused)) | sort_by(.path) | map(.refused
		| sub("^.*libonlythere"; ""))' \
		"[\".so.2' is truncated: 1000 bytes, section headers at $(
			od -An -t u8 -j 40 -N 8 "$REAL" | tr -d ' ')\",\".so.3' is not an ELF file\",\".so.4' is not a regular file\"]"
}

@test "dry run: explains your own processes unprivileged and reports hidden files" {
	local lib=$HERE/libonlythere.so.1 pid

	need_root
	need_unprivileged "$FIX/call" "$REAL"
	"${NOBODY[@]}" test -x "$HERE" || chmod a+x "$HERE" "${HERE%/*}" "${HERE%/*/*}"
	cp "$REAL" "$lib"
	need_unprivileged "$lib"
	start_bg c "${NOBODY[@]}" env LD_PRELOAD="$lib" "$FIX/call" --wait add 10
	wait_ready c
	pid=$(bg_pid c)
	dry fix_add --lib onlythere --pid "$pid" --json
	assert_json '.[0].libraries | map([.path, .found, .functions])' \
		"[[\"$lib\",\"mapped by pid $pid\",1]]"
	dry fix_add --lib onlythere
	assert_stderr_match "^funcsnoop attach: processes not searched, because their mappings cannot be read: [0-9]+$"
	rm "$lib"
	dry -s 1 fix_add --lib onlythere --pid "$pid"
	assert_stderr "funcsnoop attach: no library 'onlythere' that can be used: '$lib' is deleted, but process $pid still has it mapped
hint: opening a deleted file needs root (CAP_SYS_ADMIN)"
	dry -s 1 fix_add --lib "$lib" --pid "$pid"
	assert_stderr_match "'$lib' is deleted, but process $pid still has it mapped$"
	fsn attach g fix_add --lib onlythere --pid "$pid" --dry-run --json
	assert_json '.[0].libraries | map([.path, .functions])' \
		"[[\"$lib (deleted, mapped by pid $pid)\",1]]"
	dry -s 1 fix_add --lib onlythere --pid $$
	assert_stderr "funcsnoop attach: cannot see mappings of process $$: Permission denied
hint: needs CAP_SYS_PTRACE; try with sudo"
	run_end c
}

run_end() { # NAME
	tell "$1"
	wait_bg "$1"
}

@test "dry run: explains each group of a configuration, also if one would fail" {
	cat >"$HERE/groups.json" <<-END
	{ "a_sym": { "plus": "fix_add" }, "b_sym": { "none": "nosuch" },
	  "c_sym": { "ret": "fix_ret" }, "lib": "$LIB" }
	END
	fsn attach --config "$HERE/groups.json" --dry-run a c
	assert_output_line "a:"
	assert_output_match "^plus +$REAL "
	assert_output_line "c:"
	fsn -s 1 attach --config "$HERE/groups.json" --dry-run
	assert_output_match "^plus +$REAL "
	assert_output_match "^ret +$REAL "
	assert_output_match "^none +- .* missing +no such symbol$"
	fsn -s 1 attach --config "$HERE/groups.json" --dry-run --json
	assert_json '.groups | map([.group, (.functions | map(.name)), .missing])' \
		'[["a",["plus"],[]],["b",[],["none"]],["c",["ret"],[]]]'
}

@test "dry run: lists functions of a preset that the library lacks, status 0" {
	need_cuda
	fsn attach cuda --lib "$CUDART" --dry-run --json
	assert_json_true '.[0] | (.missing | length) + (.functions | length) > 400'
	cat >"$HERE/few.json" <<-END
	{ "few_func_sym": { "a": "cudaMalloc", "b": "cudaNoSuch" }, "lib": "$CUDART" }
	END
	mkdir -p "$XDG_CONFIG_HOME/funcsnoop/presets"
	cp "$HERE/few.json" "$XDG_CONFIG_HOME/funcsnoop/presets/few.json"
	fsn -s any attach few --dry-run --json
	rm "$XDG_CONFIG_HOME/funcsnoop/presets/few.json"
	assert_eq "$status" 0
	assert_json '.[0] | [(.functions | map(.name)), .missing]' '[["a"],["b"]]'
}

@test "dry run: a configuration without a library gets a hint to name one" {
	cat >"$HERE/groups.json" <<-END
	{ "cuda_func_sym": { "cudaMalloc": "cudaMalloc" }, "custom_sym": { "vectorAdd": "vectorAdd" } }
	END
	fsn -s 1 attach --config "$HERE/groups.json" custom --dry-run
	assert_stderr "funcsnoop attach: no library is given for 'vectorAdd'
hint: name it with --lib LIB, or in a configuration with the key \"lib\" or \"libs\""
}
