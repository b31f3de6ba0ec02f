// SPDX-License-Identifier: BSD-2-Clause
// Reads and writes complete files, also if signals interrupt; caches texts until the next boot.
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "base/file.h"

#define FIRST_ROOM 16384

/* Returns the size of a regular file plus one byte, so that the buffer need not grow. */
static size_t first_room(int fd, size_t max)
{
	struct stat st;

	if (fstat(fd, &st) || !S_ISREG(st.st_mode) || st.st_size < FIRST_ROOM ||
		(uint64_t)st.st_size > max)
		return FIRST_ROOM;
	return st.st_size + 2;
}

DIR *dir_open_at(int at_fd, const char *path)
{
	int fd = openat(at_fd, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);

	if (fd >= 0 && !dir)
		close(fd);
	return dir;
}

int file_read(int fd, size_t max, char **ret_bytes, size_t *ret_len)
{
	size_t len = 0, room = first_room(fd, max);
	_cleanup_free_ char *bytes = malloc(room);
	ssize_t n;

	if (!bytes)
		return -ENOMEM;
	do {
		if (len + 1 == room) {
			char *grown = realloc(bytes, room *= 2);

			if (!grown)
				return -ENOMEM;
			bytes = grown;
		}
		n = read(fd, bytes + len, room - len - 1);
		if (n < 0 && errno != EINTR)
			return -errno;
		len += n > 0 ? n : 0;
		if (len > max)
			return -EFBIG;
	} while (n);
	bytes[len] = '\0';
	*ret_bytes = TAKE_PTR(bytes);
	*ret_len = len;
	return 0;
}

int file_read_number(const char *path, int64_t *ret_number)
{
	_cleanup_fclose_ FILE *f = fopen(path, "re");
	int64_t number;

	if (!f)
		return -errno;
	if (fscanf(f, "%" SCNd64, &number) != 1)
		return -EINVAL;
	*ret_number = number;
	return 0;
}

int file_write(int fd, const void *bytes, size_t len)
{
	for (const char *at = bytes; len;) {
		ssize_t n = write(fd, at, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		at += n;
		len -= n;
	}
	return 0;
}

#define LINKS_MAX 40 /* limit of the kernel */

/* Replaces symbolic link @at by its target. False if it is not a link or cannot be read. */
static bool follow_link(char at[static PATH_MAX], bool *ret_is_proc)
{
	_cleanup_close_ int fd = open(at, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	const char *slash = strrchr(at, '/');
	char to[PATH_MAX];
	size_t dir = slash ? slash + 1 - at : 0;
	struct statfs fs;
	ssize_t len;

	len = fd < 0 ? -1 : readlinkat(fd, "", to, sizeof(to));
	if (len <= 0 || fstatfs(fd, &fs))
		return false;
	*ret_is_proc = fs.f_type == PROC_SUPER_MAGIC;
	if (*ret_is_proc) /* the target of a /proc link is only a description */
		return true;
	dir = to[0] == '/' ? 0 : dir;
	if (dir + len >= PATH_MAX)
		return false;
	memcpy(at + dir, to, len);
	at[dir + len] = '\0';
	return true;
}

/* True if @path and @fd are the same file. */
static bool leads_to(const char *path, int fd)
{
	struct stat a, b;

	return !stat(path, &a) && !fstat(fd, &b) && a.st_dev == b.st_dev &&
		a.st_ino == b.st_ino;
}

int file_descriptor(const char *path)
{
	char at[PATH_MAX], *end;
	bool is_proc = false;
	const char *name;
	long fd;

	if (snprintf(at, sizeof(at), "%s", path) >= (int)sizeof(at))
		return -1;
	for (int i = 0; i < LINKS_MAX && !is_proc; i++) {
		if (!follow_link(at, &is_proc))
			return -1;
	}
	name = strrchr(at, '/');
	name = name ? name + 1 : at;
	fd = strtol(name, &end, 10);
	return is_proc && end != name && !*end && leads_to(at, fd) ? fd : -1;
}

static int write_special(const char *path, const void *bytes, size_t len)
{
	_cleanup_close_ int fd = open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY);

	return fd < 0 ? -errno : file_write(fd, bytes, len);
}

/* Returns a hidden name that collectors of *.prom do not match. */
static char *temp_name(const char *path)
{
	const char *slash = strrchr(path, '/');
	int dir = slash ? (int)(slash + 1 - path) : 0;

	return xasprintf("%.*s.%s.XXXXXX", dir, path, path + dir);
}

int file_replace(const char *path, mode_t mode, const void *bytes, size_t len)
{
	_cleanup_free_ char *temp = temp_name(path);
	struct stat st;
	int fd, code;

	fd = file_descriptor(path);
	if (fd >= 0)
		return file_write(fd, bytes, len);
	if (!stat(path, &st) && !S_ISREG(st.st_mode))
		return write_special(path, bytes, len);
	fd = mkostemp(temp, O_CLOEXEC);
	if (fd < 0)
		return -errno;
	code = file_write(fd, bytes, len);
	if (!code && fchmod(fd, mode))
		code = -errno;
	if (close(fd) && !code)
		code = -errno;
	if (!code && rename(temp, path))
		code = -errno;
	if (code)
		unlink(temp);
	return code;
}

/* --- cached texts: a line with version and boot id, then the text --------------------------- */

#define DIR_FLAGS (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)

/* True if it is owned by root, not writable for others, and a file with a single hard link. */
static bool is_trusted(int fd, mode_t type)
{
	struct stat st;

	return !fstat(fd, &st) && (st.st_mode & S_IFMT) == type && st.st_uid == 0 &&
		!(st.st_mode & (S_IWGRP | S_IWOTH)) &&
		(type == S_IFDIR || st.st_nlink == 1);
}

/* Writes the first line of a cache of this boot. */
static int head_line(char *buf, size_t size)
{
	_cleanup_fclose_ FILE *f = fopen("/proc/sys/kernel/random/boot_id", "re");
	char boot[64];

	if (!f || !fgets(boot, sizeof(boot), f))
		return -ENOENT;
	boot[strcspn(boot, "\n")] = '\0';
	snprintf(buf, size, "funcsnoop %s boot %s\n", FUNCSNOOP_VERSION, boot);
	return 0;
}

char *bootcache_read(const char *name)
{
	_cleanup_close_ int dir = open(BOOTCACHE_DIR, DIR_FLAGS);
	_cleanup_free_ char *text = NULL;
	_cleanup_close_ int fd = -1;
	char head[256];
	size_t len;

	if (dir < 0 || !is_trusted(dir, S_IFDIR))
		return NULL;
	fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (fd < 0 || !is_trusted(fd, S_IFREG) ||
		file_read(fd, BOOTCACHE_MAX, &text, &len))
		return NULL;
	if (head_line(head, sizeof(head)) || strncmp(text, head, strlen(head)) != 0)
		return NULL;
	memmove(text, text + strlen(head), len + 1 - strlen(head));
	return TAKE_PTR(text);
}

static int write_text(int fd, const char *text)
{
	char head[256];
	int code;

	if (head_line(head, sizeof(head)))
		return -ENOENT;
	if (strlen(head) + strlen(text) > BOOTCACHE_MAX)
		return -E2BIG;
	code = file_write(fd, head, strlen(head));
	return code ? code : file_write(fd, text, strlen(text));
}

void bootcache_write(const char *name, const char *text)
{
	_cleanup_close_ int dir = -1, fd = -1;
	char temp[64];

	if (geteuid() != 0)
		return;
	if (mkdir(BOOTCACHE_DIR, 0700) && errno != EEXIST)
		return;
	dir = open(BOOTCACHE_DIR, DIR_FLAGS);
	if (dir < 0 || !is_trusted(dir, S_IFDIR))
		return;
	snprintf(temp, sizeof(temp), "%s.%d", name, getpid());
	fd = openat(dir, temp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0 && errno == EEXIST) /* left by a killed process */
		unlinkat(dir, temp, 0);
	if (fd < 0)
		return;
	if (write_text(fd, text) || renameat(dir, temp, dir, name))
		unlinkat(dir, temp, 0);
}
