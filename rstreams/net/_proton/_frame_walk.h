/* A look at an AMQP frame: whether it is one of the frequent ones, or must be read.

   Spec: AMQP 1.0 section 2.3 (framing) and 2.7.5 (transfer). */

enum { A_TRANSFER = 0x14, A_DISPOSITION = 0x15 };

/* A frame passes, or must be read, or there is too little of it to tell. */
enum kind { PASSES, LOOK, TOO_SHORT };

static uint32_t read_u32(const unsigned char *at)
{
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

/* Look at the fields of a disposition: the engine knows no type by its name. What looks like a name may be something else. */
static enum kind look_at_disposition(const unsigned char *at, const unsigned char *came, const unsigned char *end)
{
    if (came < end)
        return TOO_SHORT;
    for (; at + 1 < end; at++)
        if (at[0] == 0 && (at[1] == 0xa3 || at[1] == 0xb3))
            return LOOK;
    return PASSES;
}

/* Look at the frame of `size` bytes at `frame`, of which `had` bytes have come, at least 8. */
static enum kind look_at_frame(const unsigned char *frame, uint32_t size, size_t had, uint32_t passing)
{
    const unsigned char *end = frame + size, *came = had < size ? frame + had : end;
    const unsigned char *at = frame + 4 * (size_t)frame[4];
    if (frame[5] != 0)
        return LOOK;
    if (at == end)
        return PASSES; /* an empty frame: a heartbeat */
    if (end - at < 4)
        return LOOK;
    if (came - at < 4)
        return TOO_SHORT;
    if (at[0] != 0 || at[1] != 0x53 || at[2] < 0x10 || at[2] > 0x18 || !(passing >> (at[2] - 0x10) & 1))
        return LOOK;
    uint32_t width = at[3] == 0xc0 ? 1 : at[3] == 0xd0 ? 4 : 0; /* of the size and the count of the list */
    if (width == 0)
        return at[3] == 0x45 ? PASSES : LOOK;
    at += 4;
    if ((size_t)(end - at) < 2 * width)
        return LOOK;
    if (came - at < 2 * (ptrdiff_t)width)
        return TOO_SHORT;
    uint32_t list = width == 1 ? at[0] : read_u32(at);
    if (list < width || list > (size_t)(end - at) - width)
        return LOOK;
    return frame[4 * (size_t)frame[4] + 2] == A_DISPOSITION ? look_at_disposition(at, came, end) : PASSES;
}
