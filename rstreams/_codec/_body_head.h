/* The start of a message that has a body of bytes and nothing else. Before this header: stdbool.h, stdint.h, string.h. */

/* 0x00 described, 0x53 0x75 by the small ulong 0x75, 0xb0 or 0xa0 binary, and its length in 4 bytes or in one (3.2.6) */
enum { BODY_HEAD = 8, SHORT_BODY_HEAD = 5, SHORT = 256 };
static const char DATA[4] = "\0Su\xb0", SHORT_DATA[4] = "\0Su\xa0";

/* Return whether a body can have so many bytes. */
static inline bool is_body_size(Py_ssize_t length)
{
    return (uint64_t)length <= UINT32_MAX - BODY_HEAD;
}

/* Return how many bytes come before a body of so many bytes. */
static inline Py_ssize_t size_of_head(Py_ssize_t length)
{
    return length < SHORT ? SHORT_BODY_HEAD : BODY_HEAD;
}

/* Write the start with a length of 4 bytes; return where the body begins. */
static inline char *write_head(char *to, Py_ssize_t length)
{
    const char told[4] = {(char)(length >> 24), (char)(length >> 16), (char)(length >> 8), (char)length};
    memcpy(to, DATA, 4);
    memcpy(to + 4, told, 4);
    return to + BODY_HEAD;
}

/* Write the start in its shortest form, of `size_of_head` bytes; return where the body begins. */
static inline char *write_body_head(char *to, Py_ssize_t length)
{
    if (length >= SHORT)
        return write_head(to, length);
    memcpy(to, SHORT_DATA, 4);
    to[4] = (char)length;
    return to + SHORT_BODY_HEAD;
}
