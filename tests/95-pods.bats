# SPDX-License-Identifier: BSD-2-Clause
# The DaemonSet and the image of .packaging/: what pods of it may do is enough, and none of it too
# much. A pod here is a root and a mount namespace of its own, with the node's processes, as
# hostPID has it, and with the capabilities and mounts that the manifest gives a container.
# shellcheck disable=SC2030,SC2031 # each test has its own

load helpers

PACKAGING=$BATS_TEST_DIRNAME/../.packaging
JOB=$BATS_TEST_TMPDIR/job
POD=$BATS_TEST_TMPDIR/pod

need_yaml() {
	need_tool python3 jq
	python3 -c 'import yaml' 2>/dev/null || skip "needs python3-yaml"
	output=$(python3 -c 'import json, sys, yaml
print(json.dumps(list(yaml.safe_load_all(open(sys.argv[1])))))' "$PACKAGING/daemonset.yml")
}

# Value of EXPR in CONTAINER; $output has the manifest.
of_container() { # CONTAINER EXPR
	jq -r --arg name "$1" ".[] | select(.kind == \"DaemonSet\").spec.template.spec.containers[] |
		select(.name == \$name) | $2" <<<"$manifest"
}

# The capabilities of CONTAINER but for those named, as setpriv has them.
caps_of() { # CONTAINER [WITHOUT]
	of_container "$1" '.securityContext.capabilities.add[]' | grep -vxF -e "${2-}" |
		tr '[:upper:]' '[:lower:]' | sed 's/^/,+/' | tr -d '\n'
}

# The root of a container: the image's programs, and of the node what is mounted there.
make_pod() {
	local dir

	mkdir "$POD"
	mount -t tmpfs -o mode=755 pod "$POD"
	mkdir "$POD"/{usr,proc,sys,etc,run,run/bpf,run/funcsnoop,tmp,dev}
	for dir in bin lib lib64 sbin; do
		ln -s "usr/$dir" "$POD/$dir"
	done
	cp /etc/ld.so.cache "$POD/etc"
	mount --rbind /usr "$POD/usr"
	# The node's own files there are not in the image.
	mount -t tmpfs own "$POD/usr/local"
	mkdir "$POD/usr/local/bin"
	cp "$FUNCSNOOP" "$POD/usr/local/bin/funcsnoop"
	mount --rbind /proc "$POD/proc"
	mount --rbind /sys "$POD/sys"
	mount --rbind /dev "$POD/dev"
	mount -t bpf -o mode=700 bpf "$POD/run/bpf"
	mount -t tmpfs -o mode=755 run "$POD/run/funcsnoop"
	mount -o remount,ro "$POD"
}

# A rank of another pod and user, whose library is not readable by others. No process of
# another test has mapped a library with its name.
start_job() {
	chmod o+x "$BATS_RUN_TMPDIR" "$BATS_TEST_TMPDIR" "${BATS_TEST_TMPDIR%/*}"
	mkdir "$JOB"
	# shellcheck disable=SC2016	# for the inner shell
	start_bg job unshare --mount --propagation private bash -c '
		mount -t tmpfs job "$0" && mkdir "$0/lib" && cp "$1/libncclstub.so" "$0/lib/libfsnpods.so.2" &&
			cp "$1/ncclcall" "$0" && chown -R 1000 "$0" && chmod 0700 "$0/lib" &&
			exec setpriv --reuid 1000 --regid 1000 --clear-groups \
				"$0/ncclcall" --wait "$0/lib/libfsnpods.so.2" rank' "$JOB" "$FIX"
	wait_ready job
	tell job
}

# Runs CMD in the pod as CONTAINER, with these capabilities.
in_pod() { # CONTAINER CAPS CMD...
	# shellcheck disable=SC2016	# for the inner shell
	POD_CMD=(unshare --mount --propagation private bash -c
		'[[ $0 != true ]] || mount -o remount,bind,ro "$1/run/bpf"; exec chroot "${@}"'
		"$(of_container "$1" 'any(.volumeMounts[]; .mountPath == "/run/bpf" and .readOnly)')"
		"$POD" setpriv --no-new-privs "--bounding-set=-all$2" "--inh-caps=-all$2"
		env -i PATH=/usr/local/bin:/usr/bin:/bin
		"$(of_container "$1" '.env[] | select(.name == "FUNCSNOOP_BPFFS") | "\(.name)=\(.value)"')"
		GROUP=nccl "${@:3}")
}

need_pod() {
	need_bpf
	need_tool setpriv chroot unshare
	need_link multi
	need_yaml
	manifest=$output
	make_pod
	start_job
}

@test "pods: the DaemonSet's containers have the privileges that they need, and no more" {
	local name cap script

	need_pod
	for name in attach serve; do
		assert_eq "$(of_container $name '.securityContext | [.runAsUser, .readOnlyRootFilesystem,
			.allowPrivilegeEscalation, .privileged // false, .capabilities.drop[]] | map(tostring) |
			join(" ")')" "0 true false false ALL"
	done
	# Without any of them the attach fails, and says of which.
	for cap in $(of_container attach '.securityContext.capabilities.add[]'); do
		in_pod attach "$(caps_of attach "$cap")" funcsnoop attach nccl --lib fsnpods
		capture -s 1 "${POD_CMD[@]}"
		assert_stderr_match "^hint: needs CAP_$cap, which this root was started without, as in a container$"
	done
	assert_eq "$(of_container attach '.securityContext.capabilities.add | length')" 4
	# Its script, unchanged except for the library's name.
	script=$(of_container attach '.args[0]')
	script=${script/--share/--lib fsnpods --share}
	assert_eq "$(grep -c -e '--lib fsnpods --share 0644' <<<"$script")" 1
	in_pod attach "$(caps_of attach)" "$(of_container attach '.command[0]')" \
		"$(of_container attach '.command[1]')" "$script"
	start_bg attach "${POD_CMD[@]}"
	poll_until -t 30 grep -q 'libfsnpods.so.2' "$(bg_out attach)" "$(bg_err attach)"
	in_pod serve "$(caps_of serve)" bash -c "printf 'GET /metrics HTTP/1.0\r\n\r\n' | funcsnoop serve --inetd"
	poll_until serves_calls
	# To read the numbers and to take them away the kernel asks for nothing.
	in_pod attach "" funcsnoop stats nccl --json
	capture "${POD_CMD[@]}"
	assert_json_true '.[0].functions[] | select(.name == "ncclAllReduce").calls > 0'
	in_pod serve "$(caps_of serve)" funcsnoop detach --all
	capture -s 1 "${POD_CMD[@]}"
	assert_stderr_match "Read-only file system"
	in_pod attach "" funcsnoop detach --all
	capture "${POD_CMD[@]}"
	stop_bg attach
	stop_bg job
}

# The container's loop without a pod: sleep prints a line for each round, and the fourth one
# removes the group; funcsnoop fails as the files next to it say.
@test "pods: the attacher survives a failed refresh and exits after a detach" {
	local dir=$BATS_TEST_TMPDIR/bin

	need_yaml
	manifest=$output
	mkdir -p "$dir" "$BATS_TEST_TMPDIR/bpf/funcsnoop/nccl"
	cat >"$dir/funcsnoop" <<-'END'
		#!/bin/sh
		echo "$*" >>"$TOLD"
		[ "$1" != list ] || exit 1
		[ "$(grep -c -e --refresh "$TOLD")" != 2 ]
	END
	cat >"$dir/sleep" <<-'END'
		#!/bin/sh
		echo "sleep $*" >>"$TOLD"
		[ "$(grep -c ^sleep "$TOLD")" != 4 ] || rmdir "$FUNCSNOOP_BPFFS/funcsnoop/nccl"
	END
	chmod +x "$dir/funcsnoop" "$dir/sleep"
	capture env PATH="$dir:$PATH" TOLD="$BATS_TEST_TMPDIR/told" GROUP=nccl \
		FUNCSNOOP_BPFFS="$BATS_TEST_TMPDIR/bpf" sh -c "$(of_container attach '.args[0]')"
	assert_eq "$(<"$BATS_TEST_TMPDIR/told")" "list nccl --quiet
attach nccl --share 0644
sleep 60
attach nccl --share 0644 --refresh
sleep 60
attach nccl --share 0644 --refresh
sleep 60
attach nccl --share 0644 --refresh
sleep 60
sleep infinity"
	assert_stderr "nccl is as it was; again in 60 s
nccl was detached"
}

serves_calls() {
	capture "${POD_CMD[@]}"
	grep -q '^funcsnoop_calls_total{group="nccl",function="ncclAllReduce",.*} [1-9]' <<<"$output"
}

answers() { # PORT
	exec 4<>"/dev/tcp/127.0.0.1/$1" || return
	printf 'GET /metrics HTTP/1.0\r\n\r\n' >&4
	output=$(cat <&4)
	exec 4>&-
	[[ $output == "HTTP/1.1 200 OK"* ]]
}

@test "pods: the command of the serve container listens and answers" {
	local port command

	need_pod
	need_tool socat
	in_pod attach "$(caps_of attach)" funcsnoop attach nccl --lib fsnpods --mode 0644
	capture "${POD_CMD[@]}"
	port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
	mapfile -t command < <(of_container serve '(.command + .args)[]')
	in_pod serve "$(caps_of serve)" "${command[@]//9797/$port}"
	start_bg serve "${POD_CMD[@]}"
	poll_until -t 30 answers "$port" 2>/dev/null
	assert_output_match '^funcsnoop_calls_total\{group="nccl",function="ncclAllReduce"'
	assert_eq "$(of_container serve '.ports[0].containerPort')" 9797
	stop_bg serve
	in_pod attach "" funcsnoop detach nccl
	capture "${POD_CMD[@]}"
	stop_bg job
}

# --- the image ----------------------------------------------------------------------------

# Packages that the image's recipe installs first, one per line.
installed() {
	sed -e ':a' -e '/\\$/N; s/\\\n//; ta' "$PACKAGING/Containerfile" | grep -m 1 'apt-get install' |
		grep -oE '\S+' | sed '1,/--no-install-recommends/d'
}

@test "pods: the image is built from the packages of deps and starts the program" {
	local file=$PACKAGING/Containerfile tests_only='g++ bats jq procps util-linux python3 dpkg-dev'

	# shellcheck disable=SC2086	# several words
	assert_eq "$({ installed; printf '%s\n' $tests_only; } | sort -u)" \
		"$({ sed -n "/^base='/,/^'/p" "$BATS_TEST_DIRNAME/deps" | awk 'NF > 1 { print $1 }'
			echo dpkg-dev; } | sort -u)"
	assert_eq "$(grep -oE '^[A-Z]+' "$file" | uniq | xargs)" \
		"FROM RUN COPY RUN FROM COPY RUN ENTRYPOINT"
	assert_eq "$(sed -n 's/^ENTRYPOINT //p' "$file" | jq -r '.[]')" funcsnoop
	# Build results are not sources, and need not be sent.
	assert_eq "$(grep -v '^#' "$BATS_TEST_DIRNAME/../.containerignore")" ".git
$(sed 's|^/\(.*\)/$|\1|' "$BATS_TEST_DIRNAME/../.gitignore")"
	# The programs in the manifest are installed.
	grep -q 'install .* socat ' "$file"
}
