// SPDX-License-Identifier: BSD-2-Clause
// Reading and writing to the end, whatever a signal cuts short.
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"

#define FIRST_ROOM 16384

/* Room for a regular file and the byte behind it, so that it need not grow. */
static size_t first_room(int fd, size_t max)
{
	struct stat st;

	if (fstat(fd, &st) || !S_ISREG(st.st_mode) || st.st_size < FIRST_ROOM ||
		(uint64_t)st.st_size > max)
		return FIRST_ROOM;
	return st.st_size + 2;
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

static int write_special(const char *path, const void *bytes, size_t len)
{
	_cleanup_close_ int fd = open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY);

	return fd < 0 ? -errno : file_write(fd, bytes, len);
}

/* A hidden name that no collector of *.prom reads. */
static char *temp_name(const char *path)
{
	const char *slash = strrchr(path, '/');
	int dir = slash ? (int)(slash + 1 - path) : 0;
	char *name;

	return asprintf(&name, "%.*s.%s.XXXXXX", dir, path, path + dir) < 0 ? NULL : name;
}

int file_replace(const char *path, mode_t mode, const void *bytes, size_t len)
{
	_cleanup_free_ char *temp = temp_name(path);
	struct stat st;
	int fd, code;

	if (!stat(path, &st) && !S_ISREG(st.st_mode))
		return write_special(path, bytes, len);
	fd = temp ? mkostemp(temp, O_CLOEXEC) : -1;
	if (fd < 0)
		return temp ? -errno : -ENOMEM;
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
