/* The walk over AMQP frames: it passes over the frequent ones, and stops at a frame that must be read.

   It does not use the engine, keeps no state between calls, and reads only the bytes that it gets.

   Spec: AMQP 1.0 section 2.3 (framing) and 2.7.5 (transfer). */

enum { A_TRANSFER = 0x14 };

/* A frame passes, or must be read, or there is too little of it to tell. */
enum kind { PASSES, LOOK, TOO_SHORT };

static uint32_t read_u32(const unsigned char *at)
{
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
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
    return PASSES;
}

/* Walk over the frames of one direction of a connection: walk(data, at, passing, most).

   data      bytes
   at        where a frame begins in them
   passing   the performatives that are passed over: bit n for the one of code 0x10 + n
   most      the largest frame that is allowed

   Returns where it stopped, and why. Above 0: a frame of so many bytes begins there and must be read, and may end behind the
   data. 0: there are too few bytes to tell, or none; a place behind the data is the end of the last frame. -1: no frame can
   begin there. */
static PyObject *walk(PyObject *Py_UNUSED(module), PyObject *args)
{
    Py_buffer data;
    Py_ssize_t at;
    unsigned int passing, most;
    if (!PyArg_ParseTuple(args, "y*nII:walk", &data, &at, &passing, &most))
        return NULL;
    const unsigned char *start = data.buf;
    long long size = 0;
    while (at >= 0 && at < data.len && data.len - at >= 8) {
        uint32_t told = read_u32(start + at), head = 4 * (uint32_t)start[at + 4];
        if (told > most || head < 8 || head > told) {
            size = -1;
            break;
        }
        enum kind kind = look_at_frame(start + at, told, (size_t)(data.len - at), passing);
        if (kind != PASSES) {
            size = kind == LOOK ? told : 0;
            break;
        }
        if (at > PY_SSIZE_T_MAX - (Py_ssize_t)told)
            break;
        at += told;
    }
    PyBuffer_Release(&data);
    return Py_BuildValue("nL", at, size);
}
