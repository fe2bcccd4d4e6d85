package learn

import (
	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/vec"
)

// hessian adds H*v to the gradients, where H is the Hessian of scale times the batch's summed
// binary cross entropy with respect to all slots. It must follow forward, whose logits are in z.
// It uses forward-over-reverse differentiation: every number of the two passes has a tangent,
// its derivative as the slots move along v. The prefix r marks tangents.
func (t *featurePass) hessian(y, z []float32, scale float32, v *[method.MaxSlots][]float32) {
	rx := vec.Rows(t.Floats(len(t.x.Data)), t.x.Row)
	t.gather(0, v, true, rx)
	rh, last := t.tangents(rx, v), t.layers-1
	rz := t.Floats(t.n)
	out := t.layer + 2*last
	wide := vec.Pad(t.at[last].in)
	h, rl := t.at[last-1].h, rh[last-1]
	for x := range rz {
		rz[x] = vec.Dot(rl[x*wide:][:wide], t.val[out][:wide]) + vec.Dot(h[x*wide:][:wide], v[out][:wide]) + v[out+1][0]
	}
	for x := range z { // z becomes the gradient with respect to the logit, and rz its tangent
		p := vec.Sigmoid(z[x])
		z[x] = float32(scale * (p - y[x]))
		rz[x] *= float32(scale * float32(p*(1-p)))
	}
	t.reverse(rx, &rh, z, rz, v)
}

// tangents returns the tangents of the hidden layers' outputs.
func (t *featurePass) tangents(rx vec.Mat, v *[method.MaxSlots][]float32) (rh [maxLayers][]float32) {
	size := 0
	for i := range t.layers - 1 {
		size += len(t.at[i].h)
	}
	room := t.Floats(size)
	in, rin := t.x, rx
	for i := range t.layers - 1 {
		l, wide := &t.at[i], vec.Pad(t.at[i].out)
		r := room[:len(l.h):len(l.h)]
		room = room[len(l.h):]
		vw, vb := v[t.layer+2*i], v[t.layer+2*i+1]
		for x := range t.n {
			copy(r[x*wide:(x+1)*wide], vb)
		}
		Gemm(t.Scratch, t.n, l.out, l.in, in, vec.Rows(vw, l.stride).T(), vec.Rows(r, wide))
		Gemm(t.Scratch, t.n, l.out, l.in, rin, vec.Rows(l.w, l.stride).T(), vec.Rows(r, wide))
		t.activationGrad(l.h, r)
		rh[i], in, rin = r, vec.Rows(l.h, wide), vec.Rows(r, wide)
	}
	return rh
}

// reverse is backward with tangents: dz is the gradient with respect to the logits, rz its
// tangent. It stores only the tangents of the slots' gradients.
func (t *featurePass) reverse(rx vec.Mat, rh *[maxLayers][]float32, dz, rz []float32, v *[method.MaxSlots][]float32) {
	widest := t.x.Row
	for i := range t.layers - 1 {
		widest = max(widest, vec.Pad(t.at[i].out))
	}
	last, size := t.layers-1, t.n*widest
	d, rd, next, rnext := t.Floats(size), t.Floats(size), t.Floats(size), t.Floats(size)
	l, wide := &t.at[last], vec.Pad(t.at[last].in)
	Gemm(t.Scratch, 1, l.in, t.n, vec.Rows(rz, t.n), vec.Rows(t.at[last-1].h, wide), vec.Rows(l.gw, l.stride))
	Gemm(t.Scratch, 1, l.in, t.n, vec.Rows(dz, t.n), vec.Rows(rh[last-1], wide), vec.Rows(l.gw, l.stride))
	l.gb[0] += vec.Sum(rz)
	vw := v[t.layer+2*last][:wide]
	clear(d[:t.n*wide])
	clear(rd[:t.n*wide])
	for x := range t.n {
		vec.Axpy(dz[x], l.w[:wide], d[x*wide:][:wide])
		vec.Axpy(rz[x], l.w[:wide], rd[x*wide:][:wide])
		vec.Axpy(dz[x], vw, rd[x*wide:][:wide])
	}
	for i := last - 1; i >= 0; i-- {
		l, wide := &t.at[i], vec.Pad(t.at[i].out)
		t.activationGradTangent(l.h, rh[i], d[:t.n*wide], rd[:t.n*wide])
		in, rin := t.x, rx
		if i > 0 {
			in, rin = vec.Rows(t.at[i-1].h, vec.Pad(l.in)), vec.Rows(rh[i-1], vec.Pad(l.in))
		}
		dm, rm := vec.Rows(d, wide), vec.Rows(rd, wide)
		Gemm(t.Scratch, l.out, l.in, t.n, rm.T(), in, vec.Rows(l.gw, l.stride))
		Gemm(t.Scratch, l.out, l.in, t.n, dm.T(), rin, vec.Rows(l.gw, l.stride))
		vec.Columns(rd[:t.n*wide], l.gb)
		to := t.n * vec.Pad(l.in)
		clear(next[:to])
		clear(rnext[:to])
		Gemm(t.Scratch, t.n, l.in, l.out, dm, vec.Rows(l.w, l.stride), vec.Rows(next, vec.Pad(l.in)))
		Gemm(t.Scratch, t.n, l.in, l.out, rm, vec.Rows(l.w, l.stride), vec.Rows(rnext, vec.Pad(l.in)))
		Gemm(t.Scratch, t.n, l.in, l.out, dm, vec.Rows(v[t.layer+2*i], l.stride), vec.Rows(rnext, vec.Pad(l.in)))
		d, rd, next, rnext = next, rnext, d, rd
	}
	t.scatter(vec.Rows(rd, t.x.Row), &t.grad)
}

// activationGradTangent multiplies d by the derivative of the activation whose output is h, and replaces rd
// by the tangent of the product. The derivative of the logistic function is h(1-h), with tangent
// (1-2h) rh.
func (t *featurePass) activationGradTangent(h, rh, d, rd []float32) {
	t.activationGrad(h, rd)
	if t.mlp.curved {
		for i, y := range h {
			rd[i] += float32(float32(d[i]*(1-2*y)) * rh[i])
		}
	}
	t.activationGrad(h, d)
}
