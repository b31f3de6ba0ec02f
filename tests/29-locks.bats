# SPDX-License-Identifier: BSD-2-Clause
# Contended locks: calls of futex(2) that wait, by lock.
# bats file_tags=bpf

load helpers

setup() {
	common_setup
	need_bpf
	need_tool jq
}

# Starts OWN, a copy of the fixture, attaches to it with ARGs, and lets it make its waits; its lines
# are in $said. It goes on until `tell c`.
contend() { # ROUNDS ARG...
	cp "${FIXTURE-$FIX/contend}" "$BATS_TEST_TMPDIR/contend"
	start_bg c "$BATS_TEST_TMPDIR/contend" --wait --wait-end "$1"
	wait_ready c
	fsn attach "${@:2}" --pid "$(bg_pid c)"
	tell c
	wait_line -t 120 c '^done'
	said=$(grep -v '^\(ready\|done\)' "$(bg_out c)")
}

# $output has the rows that the program tells: their names, addresses and waits; times are within
# the bounds that it measured.
rows_match() {
	local name addr cnt least most all=

	while read -r name addr cnt least most; do
		assert_json "[.[0].functions[] | select(.name == \"futex:wait\") | .rows[]
			| select(.key.lock.value == \"$addr\")
			| [.key.lock.name // \"-\", .calls, .returns, .total_ns >= $least and .total_ns <= $most]]" \
			"[[\"$name\",$cnt,$cnt,true]]" "$least to $most ns"
		all+=+$cnt
	done <<<"$said"
	assert_json '.[0].functions[] | select(.name == "futex:wait") | [.calls, .errors, (.rows | length)]' \
		"[$((all)),0,3]"
}

# bats test_tags=arch
@test "locks: waits and times of each lock match the program, and static locks have names" {
	contend 5 locks --name g
	fsn stats g --json
	rows_match
	fsn stats g --by lock
	assert_output_match 'futex:wait +far_locks\+0x1d4c0 +10 '
	fsn detach g
}

@test "locks: static locks of an exited program have names if no command looked before" {
	local keys

	for keys in lock lock,waker; do # the row of a call is found at its start or at its return
		contend 2 locks --name g --by "$keys"
		tell c
		wait_bg c
		fsn stats g --json
		rows_match
		fsn detach g
	done
}

@test "locks: without symbols static locks have the file and their address in it" {
	local addr

	addr=$(nm "$FIX/contend" | sed -n 's/^0*\([0-9a-f]*\) b near_lock$/\1/p')
	FIXTURE=$BATS_TEST_TMPDIR/bare
	strip -o "$FIXTURE" "$FIX/contend"
	contend 1 locks --name g
	fsn stats g --json
	assert_json "[.[0].functions[].rows[].key.lock.name | select(. == \"contend+0x$addr\")] | length" 1
	fsn detach g
}

@test "locks: futex has the other calls if both are in a group, and a glob selects futex alone" {
	contend 5 g s:futex s:futex:wait --by lock
	fsn stats g --json
	rows_match
	# each round has two: the one that holds a lock with a waiter wakes it, and the waiter, when it has
	# the lock, cannot know that it was the last one
	assert_json '.[0].functions[] | select(.name == "futex") | .calls' 60
	fsn detach g
	fsn attach g 's:fute*' --dry-run
	refute_output_match 'futex:wait'
}

# bats test_tags=arch
@test "locks: the thread that ends a wait is known, in rows and slow calls" {
	contend 2 locks --name g --by lock,waker,waker_tid --slow 0ns
	fsn stats g --json
	rows_match
	assert_json '[.[0].functions[].rows[].key | [.waker.value, .waker_tid.value]] | unique' \
		"[[\"holder\",$(bg_pid c)]]"
	fsn stats g
	assert_output_match "^futex:wait +near_lock +holder +$(bg_pid c) +2 "
	fsn stats g --show slow --json
	assert_json '[.[0].slow_calls[].key | [.waker.value, .waker_tid.value]] | unique' \
		"[[\"holder\",$(bg_pid c)]]"
	fsn detach g
}

@test "locks: a wait that reaches its time limit has no waker" {
	need_tool python3
	capture "$FUNCSNOOP" run locks --by lock,waker,waker_tid --format json --quiet \
		-o "$BATS_TEST_TMPDIR/run.json" -- python3 -S -c 'import threading
lock = threading.Lock()
lock.acquire()
lock.acquire(timeout=0.05)'
	output=$(<"$BATS_TEST_TMPDIR/run.json")
	assert_json '.[0].functions[0] | [.calls, (.return_codes[] | [.name, .count])]' '[1,["ETIMEDOUT",1]]'
	assert_json '[.[0].functions[0].rows[].key | [.waker.value, .waker_tid.value, .lock.name]]' '[["",-1,null]]'
}

# bats test_tags=core,arch
@test "locks: the stack of the thread that ends a wait is known, in rows and stack formats" {
	local by='.[0].functions[].rows[] | {calls, by: ([.key.waker_stack.frames[].name]
		| map(select(startswith("release_")))[0])}'

	contend 3 locks --name g --by lock,waker_stack
	fsn stats g --json
	assert_json "[$by] | group_by(.by) | map([.[0].by, length, (map(.calls) | add)])" \
		'[["release_first",3,3],["release_next",3,15]]'
	fsn stats g --by lock,waker_stack
	assert_output_match '^futex:wait +near_lock +[^ ]+ < [^ ]+ .*[^ ] +1 '
	fsn stats g --format folded
	assert_output_match ';main;(contend;)?release_first;.* 1$'
	refute_output_match 'lock_want|futex:wait'
	fsn detach g
}

@test "locks: run shows stacks next to other keys, in rows of both" {
	cp "$FIX/contend" "$BATS_TEST_TMPDIR/own-contend"
	local by

	for by in '--by stack,lock' '--by lock --by stack' '--by stack --by lock'; do
		# shellcheck disable=SC2086	# words
		fsn run s:futex:wait --if comm==wanter $by -o "$BATS_TEST_TMPDIR/out" \
			-- "$BATS_TEST_TMPDIR/own-contend" 2
		output=$(<"$BATS_TEST_TMPDIR/out")
		assert_output_match '^FUNCTION +(LOCK +STACK|STACK +LOCK) '
		assert_output_match '^futex:wait .*near_lock.* +2 '
		assert_output_match ' [^ ]+ < [^ ]+ '
	done
}

@test "locks: rows have the stack of the waiting thread and of the one that ends the wait" {
	contend 1 locks --name g --by stack,waker_stack
	fsn stats g --json
	assert_json '[.[0].functions[].rows[] | [.calls, (.key | [.stack, .waker_stack]
		| map([.frames[].name] | (index("lock_want"), index("main")) != null))]] | sort' \
		'[[3,[true,false,false,true]],[3,[true,false,false,true]]]'
	fsn detach g
}
