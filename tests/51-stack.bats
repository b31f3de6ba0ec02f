# SPDX-License-Identifier: BSD-2-Clause
# From 6.13 on a program or subprogram that uses 64 bytes of stack or more, rounded up to 16,
# gets a stack that all tasks of a CPU share, and uprobe programs can be preempted.
# bats file_tags=bpf

load helpers

# Attaches with OPTIONS and looks at what the verifier says of every program.
small_stacks() { # FUNCTIONS OPTIONS...
	attach_has_small_stacks g "$1" --lib "$FIX/libinsn.so" "${@:2}"
}

attach_has_small_stacks() { # ARG... of attach, of a group g
	local depths depth seen=0

	fsn --debug attach "$@"
	fsn detach g
	while read -r depths; do
		for depth in ${depths//+/ }; do
			((depth <= 48)) || fail "a stack of $depth bytes: $depths" || return
			((seen += 1))
		done
	done < <(sed -n 's/.*stack depth \([0-9+]*\).*/\1/p' "$BATS_TEST_TMPDIR/.err.attach")
	((seen > 0)) || fail "the verifier said nothing of stacks"
}

# The output of attach itself: the detach after it writes its own.
fsn() {
	capture "$FUNCSNOOP" "$@"
	[[ $* != *attach* ]] || printf '%s\n' "$stderr" >"$BATS_TEST_TMPDIR/.err.attach"
}

# bats test_tags=core
@test "programs of a session link have small stacks" {
	need_link session
	small_stacks 'asm_*' --exit return --slow 1ms
}

@test "programs on ret instructions and leaving jumps have small stacks" {
	need_bpf
	small_stacks '*' --exit ret --slow 1ms
}

@test "programs of return probes have small stacks" {
	need_link multi
	small_stacks 'asm_*' --link multi --exit return
}

@test "programs that only count have small stacks" {
	need_bpf
	small_stacks '*' --count --comm nobody --cpu 0
}

# bats test_tags=core
@test "programs that keep arguments on the stack and text have small stacks" {
	local config=$BATS_TEST_TMPDIR/c.json exit

	need_bpf
	cat >"$config" <<-EOF
		{ "g_func_sym": { "fix_add": { "symbol": "fix_add", "slow": "1ms", "args": [
			"int a", "int b", "int c", "int d", "int e", "const char *f", "long g",
			"const char *h" ] } },
		  "lib": "$FIX/libfix.so" }
	EOF
	for exit in return ret; do
		attach_has_small_stacks --config "$config" --exit "$exit"
		attach_has_small_stacks --config "$config" --exit "$exit" --no-processes
	done
}
