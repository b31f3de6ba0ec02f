# SPDX-License-Identifier: BSD-2-Clause
# Walks while mappings change: one file replaces another; threads map and unmap.
# bats file_tags=bpf

load helpers

setup() {
	common_setup
	need_bpf
	need_arch x86_64
	need_tool jq
	need_fixture swap
}

# Counts the stacks of sw_leaf(): complete and right, complete and wrong, truncated and right
# so far, truncated and wrong, missing. A stack is right if its frames are those of the plugin
# named by the argument, of the program and of the C library.
judge() { # DOCUMENT: sets whole lies cut cut_lies none
	local doc=$1

	read -r whole lies cut cut_lies none < <(jq -r '
		[.[0].functions[] | select(.name == "sw_leaf") | .rows[]
			| (["plug_a", "plug_b"][.key.arg1.value]) as $plugin
			| [$plugin, "sw_round", "main"] as $want
			| { calls, end: .key.stack.end, value: .key.stack.value,
				right: ([.key.stack.frames[]? | .name] as $names
					| $names[:3] == $want[:($names | length)]) }] as $rows
		| [ ($rows | map(select(.end == "outermost" and .right).calls)),
			($rows | map(select(.end == "outermost" and (.right | not)).calls)),
			($rows | map(select(.value > 0 and .end != "outermost" and .right).calls)),
			($rows | map(select(.value > 0 and .end != "outermost" and (.right | not)).calls)),
			($rows | map(select(.value == 0).calls)) ] | map(add // 0) | @tsv' "$doc")
}

swapped() { # ROUNDS [STORM]: leaves the group
	fsn attach st sw_leaf --lib "$FIX/swap" --stacks all --key arg1 --count --pid "$(bg_pid swap)"
	tell swap
	wait_bg swap
}

# bats test_tags=core
@test "stacks: a caller in a remapped region is attributed to the new file" {
	local doc=$BATS_TEST_TMPDIR/doc whole lies cut cut_lies none
	start_bg swap "$FIX/swap" --wait "$FIX/plug_a.so" plug_a "$FIX/plug_b.so" plug_b 200
	wait_ready swap
	swapped
	assert_output_line 'same 199'
	fsn stats st --json --output "$doc"
	jq -c '.[0].functions[].rows[] | [.calls, .key]' "$doc" >&2
	judge "$doc"
	assert_eq "$whole $lies $cut $cut_lies $none" "600 0 0 0 0"
	fsn detach st
}

# Mappings are read while they change: a walk may be truncated and then says so, but is never
# wrong.
# bats test_tags=core
@test "stacks: concurrent mmap and munmap truncate walks, and never falsify them" {
	local doc=$BATS_TEST_TMPDIR/doc whole lies cut cut_lies none
	start_bg swap "$FIX/swap" --wait "$FIX/plug_a.so" plug_a "$FIX/plug_b.so" plug_b 300 4
	wait_ready swap
	swapped
	assert_between "$(sed -n 's/^same //p' <<<"$output")" 270 299 "the same place"
	assert_between "$(sed -n 's/^mapped //p' <<<"$output")" 300 1000000000 "mappings made beside"
	fsn stats st --json --output "$doc"
	judge "$doc"
	echo "whole $whole cut $cut none $none" >&2
	assert_eq "$lies $cut_lies" "0 0" "wrong frames"
	assert_eq $((whole + cut + none)) 900
	assert_eq "$(jq '.[0].health.lost_stacks' "$doc")" "$none"
	assert_eq "$(jq -c '[.[0].health.stacks | .outermost, (to_entries | map(.value) | add)]' "$doc")" \
		"[$whole,$((whole + cut))]"
	((whole * 10 >= 9 * 900)) || differs "whole" "nine of ten" "$whole"
	fsn detach st
}

# By what each case of the fixture has wrong, how walks end, and what they have met until then.
# bats test_tags=core
@test "stacks: invalid stacks end with a counted reason, and the program survives" {
	local what how want='' cases='' n=0 exit
	need_fixture nowhere
	while read -r what how; do
		# Without a probe, too, some machines end a program with such a stack pointer.
		[[ $what != noncanon ]] || "$FIX/nowhere" interrupted || continue
		cases+=" $what" want+="$n:100 $how" n=$((n + 1))
		want+=$'\n'
	done <<-'END'
		unmapped no_memory []
		kernel no_memory []
		odd no_memory []
		noncanon no_memory []
		none no_memory []
		guard no_memory []
		untouched no_memory []
		evicted no_memory []
		zero no_memory []
		top no_memory ["no_caller"]
		to-unmapped nowhere []
		to-kernel nowhere []
		to-noncanon nowhere []
		to-none nowhere []
		to-data nowhere []
		to-stack nowhere []
		to-rodata nowhere []
		fp-kernel no_rule ["?","?"]
		fp-loop no_rule ["?","?"]
		fp-data nowhere ["?"]
	END
	for exit in none ret; do
		fsn attach st no_leaf --lib "$FIX/nowhere" --stacks all --key arg1 --exit "$exit"
		# shellcheck disable=SC2086	# words
		capture "$FIX/nowhere" $cases
		assert_output "lives $((100 * n))"
		fsn stats st --json
		# Code in no file has no name.
		assert_eq "$(jq -r '.[0].functions[0].rows[] | .key.arg1.value as $n
			| "\($n | if type == "string" then ltrimstr("0x") else tostring end) \(.calls) \(.key.stack.end) " +
			([.key.stack.frames[] | if .file then .name else "?" end] | tojson)' <<<"$output" |
			while read -r case calls how; do echo "$((16#$case)):$calls $how"; done | sort -n)" \
			"${want%$'\n'}" "exit $exit"
		assert_json '.[0].health.stacks | [.outermost, .no_memory, .nowhere, .no_rule, .lost]' \
			"[0,$((100 * $(grep -c no_memory <<<"$want"))),800,200,0]"
		fsn detach st
	done
}
