# SPDX-License-Identifier: BSD-2-Clause
# Files of the machines of tests/vm, from Debian's packages into a cache: kernels, and a root
# for another architecture. Sourced by tests/vm, whose $arch, $flavour and $tmp it needs.
# shellcheck shell=bash disable=SC2034,SC2154

cache=${FSN_VM_CACHE:-/var/cache/funcsnoop-vm}

# In the order in which they have to be loaded; what is built in is not there as a file.
modules='virtio_ring virtio virtio_pci_legacy_dev virtio_pci_modern_dev virtio_pci
	virtio_console fuse virtiofs overlay'

# Packages that the tests and the program need; a|b are the names in one release and the next.
root_packages='busybox-static base-files base-passwd bash bats binutils bpftool bsdutils coreutils
	debianutils diffutils findutils grep hostname jq libatomic1 libbpf1 libc-bin
	libcapstone4|libcapstone5 libdw1|libdw1t64 libelf1|libelf1t64 libjson-c5 liblzma5
	libstdc++6 mawk mount perl-base procps python3 sed util-linux xz-utils zlib1g'

# --- apt --------------------------------------------------------------------------------------

# apt with a state of its own below $tmp. Options, not a configuration file: they prevail
# over /etc/apt/apt.conf.d, which in containers turns apt's cache off.
apt() { # get|cache ARG...
	local dir=$tmp/apt

	"apt-$1" -qq -o APT::Architecture="$arch" -o APT::Architectures="$arch" \
		-o Dir::State="$dir/state" -o Dir::State::status="$dir/status" \
		-o Dir::Cache="$dir/cache" -o Dir::Cache::pkgcache=pkgcache.bin \
		-o Dir::Cache::srcpkgcache=srcpkgcache.bin \
		-o Dir::Etc::sourcelist="$dir/sources.list" -o Dir::Etc::sourceparts="$dir/none" \
		-o Dir::Etc::preferencesparts="$dir/none" -o Acquire::Languages=none \
		-o Acquire::Retries=2 -o Acquire::http::Timeout=20 -o APT::Sandbox::User=root \
		-o APT::Install-Recommends=0 -o Debug::NoLocking=1 "${@:2}"
}

# Reads the lists of the releases, and forgets those of others.
read_lists() { # WHAT SUITE...
	command -v apt-get >/dev/null || lacking "$1 is not in $cache, and there is no apt"
	[[ -e $keyring ]] || lacking "needs $keyring (package debian-archive-keyring)"
	find_mirror "${FSN_VM_MIRROR-}"
	rm -rf "$tmp/apt"
	mkdir -p "$tmp"/apt/{state/lists/partial,cache/archives/partial,none}
	: >"$tmp/apt/status"
	sources_of "arch=$arch signed-by=$keyring" "${@:2}" >"$tmp/apt/sources.list"
	apt get update >"$tmp/apt/log" 2>&1 || tail -n 3 "$tmp/apt/log" >&2
}

not_downloaded() { # WHAT
	tail -n 5 "$tmp/apt/log" >&2
	lacking "$1 cannot be downloaded"
}

# Sets $cache_lock. Another process may get the same meanwhile: look again.
lock_cache() {
	mkdir -p "$cache"
	touch "$cache/.lock" || lacking "cannot write to $cache"
	exec {cache_lock}<"$cache/.lock"
	flock "$cache_lock"
}

unlock_cache() {
	exec {cache_lock}>&-
}

# --- kernels ----------------------------------------------------------------------------------

# The last of sorted versions on standard input that is $1, or $1 followed by a non-digit: 6.1
# is 6.1.0-56 and not 6.12.
newest() {
	awk -v k="$1" 'index($0, k) == 1 && substr($0, length(k) + 1) !~ /^[0-9]/ { v = $0 }
		END { print v }'
}

cached_versions() {
	local dir

	for dir in "$cache"/*-"$arch"; do
		[[ ! -e $dir/vmlinuz ]] || echo "${dir##*/}"
	done | sort -V
}

suites_of() { # KERNEL
	case $1 in
	5.10 | 5.10.*) echo bullseye ;;
	6.1 | 6.1.*) echo bookworm ;;
	6.12 | 6.12.*) echo trixie ;;
	[789].*) echo trixie-backports ;;
	*) echo bookworm trixie trixie-backports ;;
	esac
}

# Up to 6.18 one package holds all of a kernel. From 6.19 on there are three, and mirrors
# keep the image of some whose modules are gone.
offered_versions() {
	apt cache pkgnames linux- | awk -v flavour="-$flavour\$" '
		$0 !~ flavour { next }
		sub(/^linux-image-/, "") { image[$0] }
		sub(/^linux-modules-/, "") { modules[$0] }
		sub(/^linux-binary-/, "") { binary[$0] }
		END {
			for (v in image) if (!(v in binary) && v ~ /^[0-9]/) print v
			for (v in binary) if (v in modules) print v
		}' | sort -V
}

# Leaves $cache/VERSION/{vmlinuz,config,modules/}, of packages; sets $unpacked to VERSION, which is
# that of the image if it is not given.
unpack_kernel() { # [VERSION] DEB...
	local new=$cache/.new deb m keep=() image

	for m in $modules; do
		keep+=("*/$m.ko" "*/$m.ko.xz")
	done
	rm -rf "$new"
	mkdir -p "$new"/{all,modules} || lacking "cannot write to $cache"
	for deb in "${@:2}"; do # tar complains of names that this package has not
		dpkg --fsys-tarfile "$deb" | tar -x -C "$new/all" --wildcards \
			'*/vmlinuz*' '*/config' '*/config-*' "${keep[@]}" 2>/dev/null
	done
	image=$(find "$new/all" -type f -name 'vmlinuz*' | head -n 1)
	[[ -s $image ]] || lacking "the packages${1:+ of kernel $1} have no image"
	unpacked=${1:-${image##*/vmlinuz-}-$arch}
	mv "$image" "$new/vmlinuz"
	find "$new/all" -name '*.ko*' -exec mv -t "$new/modules" {} +
	find "$new/all" -type f -name 'config*' -exec mv -T {} "$new/config" \;
	rm -rf "$new/all"
	rm -rf "${cache:?}/$unpacked"
	mv "$new" "$cache/$unpacked"
}

download() { # VERSION
	local packages

	packages=$(apt cache pkgnames linux- | grep -xE "linux-(image|binary|modules|base)-${1//+/\\+}")
	mkdir -p "$tmp/debs"
	# shellcheck disable=SC2086
	(cd "$tmp/debs" && apt get download $packages) >"$tmp/apt/log" 2>&1 ||
		not_downloaded "kernel $1"
	unpack_kernel "$1" "$tmp"/debs/*.deb
}

# Sets $kernel to the directory of the version that $1 means.
get_kernel() {
	local version

	version=$(cached_versions | newest "$1")
	if [[ -z $version ]]; then
		lock_cache
		version=$(cached_versions | newest "$1")
		if [[ -z $version ]]; then
			# shellcheck disable=SC2046
			read_lists "kernel $1" $(suites_of "$1")
			version=$(offered_versions | newest "$1")
			[[ -n $version ]] || lacking "no kernel $1 is to be had"
			download "$version"
		fi
		unlock_cache
	fi
	kernel=$cache/$version
}

# --- a root -----------------------------------------------------------------------------------

# The names that this release has for them.
names_here() { # PACKAGE[|PACKAGE]...
	local all package name

	all=" $(apt cache pkgnames | tr '\n' ' ') "
	for package; do
		for name in ${package//|/ }; do
			[[ $all != *" $name "* ]] || break
		done
		echo "$name"
	done
}

# Nothing of another architecture runs here to set it up: what the packages' scripts would do,
# and is needed, is done by hand.
unpack_root() { # DIR
	local deb

	rm -rf "$1"
	mkdir -p "$1"/{usr/{bin,sbin,lib},etc,proc,sys,dev,run,tmp,root,var/tmp,usr/lib/debug} ||
		lacking "cannot write to $cache"
	chmod 1777 "$1"/{tmp,var/tmp}
	for deb in bin sbin lib; do
		ln -s "usr/$deb" "$1/$deb"
	done
	for deb in "$tmp"/apt/cache/archives/*.deb; do
		dpkg --fsys-tarfile "$deb" | tar -x --keep-directory-symlink -C "$1" \
			--exclude='./usr/share/doc' --exclude='./usr/share/man' \
			--exclude='./usr/share/locale' || lacking "cannot unpack ${deb##*/}"
	done
	ln -sf mawk "$1/usr/bin/awk"
	[[ -e $1/bin/sh ]] || ln -s bash "$1/bin/sh"
	ln -sf /proc/mounts "$1/etc/mtab"
	echo '127.0.0.1 localhost vm' >"$1/etc/hosts"
	cp "$1/usr/share/base-passwd/group.master" "$1/etc/group"
	cp "$1/usr/share/base-passwd/passwd.master" "$1/etc/passwd"
}

# Sets $root to a directory with the packages of this machine's release, for which the program
# was built, and $busybox.
get_root() {
	local suite packages

	# shellcheck source=/dev/null
	suite=$(. /etc/os-release && echo "${VERSION_CODENAME-}")
	root=$cache/root-$arch-$suite-$(cksum <<<"$root_packages" | cut -d ' ' -f 1)
	if [[ ! -e $root ]]; then
		lock_cache
		if [[ ! -e $root ]]; then
			read_lists "a root for $arch" "$suite"
			# shellcheck disable=SC2086
			mapfile -t packages < <(names_here $root_packages)
			apt get install -y --download-only "${packages[@]}" >"$tmp/apt/log" 2>&1 ||
				not_downloaded "a root for $arch"
			unpack_root "$root.new"
			mv "$root.new" "$root"
		fi
		unlock_cache
	fi
	busybox=$root/bin/busybox
}
