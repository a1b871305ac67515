;; The two products that a decoding step spends its time on, four float32 numbers at a time.
;; Addresses are in bytes; a row has `cols` numbers, a multiple of 8, filled up with zeros.
(module
  (memory (import "lab" "memory") 1)

  ;; out[r] = sum over c of w[r, c] * x[c]
  (func (export "product") (param $out i32) (param $w i32) (param $x i32) (param $rows i32) (param $cols i32)
    (local $end i32) (local $stop i32) (local $at i32) (local $a v128) (local $b v128)
    (local.set $end (i32.add (local.get $out) (i32.shl (local.get $rows) (i32.const 2))))
    (local.set $stop (i32.add (local.get $x) (i32.shl (local.get $cols) (i32.const 2))))
    (block $done
      (loop $row
        (br_if $done (i32.ge_u (local.get $out) (local.get $end)))
        (local.set $a (v128.const f32x4 0 0 0 0))
        (local.set $b (v128.const f32x4 0 0 0 0))
        (local.set $at (local.get $x))
        (loop $column
          (local.set $a (f32x4.add (local.get $a)
            (f32x4.mul (v128.load (local.get $w)) (v128.load (local.get $at)))))
          (local.set $b (f32x4.add (local.get $b)
            (f32x4.mul (v128.load offset=16 (local.get $w)) (v128.load offset=16 (local.get $at)))))
          (local.set $w (i32.add (local.get $w) (i32.const 32)))
          (local.set $at (i32.add (local.get $at) (i32.const 32)))
          (br_if $column (i32.lt_u (local.get $at) (local.get $stop))))
        (local.set $a (f32x4.add (local.get $a) (local.get $b)))
        (f32.store (local.get $out)
          (f32.add
            (f32.add (f32x4.extract_lane 0 (local.get $a)) (f32x4.extract_lane 1 (local.get $a)))
            (f32.add (f32x4.extract_lane 2 (local.get $a)) (f32x4.extract_lane 3 (local.get $a)))))
        (local.set $out (i32.add (local.get $out) (i32.const 4)))
        (br $row))))

  ;; out[c] = sum over r of p[r] * v[r, c]
  (func (export "mix") (param $out i32) (param $v i32) (param $p i32) (param $rows i32) (param $cols i32)
    (local $end i32) (local $stop i32) (local $from i32) (local $at i32) (local $step i32) (local $a v128)
    (local.set $step (i32.shl (local.get $cols) (i32.const 2)))
    (local.set $end (i32.add (local.get $out) (local.get $step)))
    (local.set $stop (i32.add (local.get $p) (i32.shl (local.get $rows) (i32.const 2))))
    (loop $four
      (local.set $a (v128.const f32x4 0 0 0 0))
      (local.set $from (local.get $v))
      (local.set $at (local.get $p))
      (loop $row
        (local.set $a (f32x4.add (local.get $a)
          (f32x4.mul (v128.load (local.get $from)) (v128.load32_splat (local.get $at)))))
        (local.set $from (i32.add (local.get $from) (local.get $step)))
        (local.set $at (i32.add (local.get $at) (i32.const 4)))
        (br_if $row (i32.lt_u (local.get $at) (local.get $stop))))
      (v128.store (local.get $out) (local.get $a))
      (local.set $v (i32.add (local.get $v) (i32.const 16)))
      (local.set $out (i32.add (local.get $out) (i32.const 16)))
      (br_if $four (i32.lt_u (local.get $out) (local.get $end))))))
