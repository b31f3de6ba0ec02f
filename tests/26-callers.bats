# SPDX-License-Identifier: BSD-2-Clause
# Callers of functions that tail calls reach: the kernel's trampoline is never one.
# bats file_tags=bpf

load helpers
load stream

# The lowest page at the end of the address space has the trampoline of the kernel on x86-64.
TRAMPOLINE=0x7fffffffe000

setup() {
	common_setup
	need_bpf
	need_tool jq
	[[ -x $FIX/tailcall ]] || skip "no C++ compiler"
}

# By function, the addresses that its calls return to.
callers_of() { # FUNCTION
	json "[.[0].functions[] | select(.name == \"$1\") | .rows[]
		| [.key.caller.value, .calls]] | sort" -c
}

# bats test_tags=core,arch
@test "caller: a function reached by a tail call has the caller of the one before it" {
	local exits

	for exits in return ret; do
		fsn attach t tail_to_target tail_target --lib "$FIX/libtail.so" --exit "$exits" \
			--key caller --no-nesting --replace
		capture "$FIX/tailcall" jumps 10
		fsn stats t --json
		assert_eq "$(callers_of tail_to_target | jq -c 'map(.[1])')" '[10]'
		assert_eq "$(callers_of tail_target | jq -c 'map(.[1])')" '[10,10]' # once without it
		assert_eq "$(jq -n "$(callers_of tail_target) | index($(callers_of tail_to_target)) != null")" \
			true "exits $exits"
		refute_output_match "$TRAMPOLINE"
		fsn stats t --by caller
		refute_output_match 'fffffffe000'
	done
	fsn detach t
}

@test "callers: a remark points from an interpreter's functions to stacks" {
	local copy=$BATS_TEST_TMPDIR/python3-own

	need_bpf
	need_tool python3
	cp "$(realpath /usr/bin/python3)" "$copy"
	[[ $(nm -D "$copy") == *' T PyDict_New'* ]] || skip "python3 has its functions in a library"
	fsn run "$copy:PyDict_New" --by caller -- "$copy" -c 'for i in range(100): dict()'
	assert_stderr_match "^funcsnoop run: most callers are functions of Python's interpreter: --by stack names lines of the program$"
	fsn run "$copy:PyDict_New" --by stack -- "$copy" -c 'for i in range(100): dict()'
	refute_stderr_match 'most callers'
}
