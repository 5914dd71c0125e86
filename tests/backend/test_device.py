"""Cards: how many, which is current, what they say of themselves."""

from __future__ import annotations

import pytest
import torch
import torch_mlu
from _programs import lines, run


def test_eight_cards_are_there_unless_told_otherwise() -> None:
    assert lines("import torch, torch_mlu; print(torch.mlu.device_count(), torch.mlu.is_available())") == ["8 True"]


def test_the_number_of_cards_is_taken_from_the_environment() -> None:
    assert lines("import torch, torch_mlu; print(torch.mlu.device_count())", MLU_EMULATOR_CARDS="3") == ["3"]


def test_without_a_card_nothing_is_available_and_use_raises() -> None:
    code = """
    import torch, torch_mlu
    print(torch.mlu.is_available(), torch.mlu.device_count())
    zeros, move = lambda: torch.zeros(1, device="mlu"), lambda: torch.ones(1).mlu()
    for use in (torch.mlu.init, zeros, move, lambda: torch.mlu.FloatTensor(2)):
        try:
            use()
        except Exception as error:
            print(type(error).__name__, error)
    """
    assert lines(code, MLU_EMULATOR_CARDS="0") == [
        "False 0",
        "RuntimeError No MLU devices are available",
        "RuntimeError No MLU devices are available",
        "RuntimeError No MLU devices are available",
        "TypeError type torch.mlu.FloatTensor not available. Torch not compiled with MLU enabled.",
    ]


@pytest.mark.parametrize(
    ("name", "value", "count"),
    [
        ("MLU_VISIBLE_DEVICES", "0,1,2", 3),
        ("CN_VISIBLE_DEVICES", "5", 1),
        ("CUDA_VISIBLE_DEVICES", "0,1", 2),
        ("MLU_VISIBLE_DEVICES", "", 0),
        ("MLU_VISIBLE_DEVICES", "1,1", 0),
        ("MLU_VISIBLE_DEVICES", "0,-1,2", 1),
        ("MLU_VISIBLE_DEVICES", "0,x,2", 1),
        ("MLU_VISIBLE_DEVICES", "0,12", 1),
    ],
)
def test_visible_devices_hide_cards(name: str, value: str, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for other in ("CN_VISIBLE_DEVICES", "MLU_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"):
        monkeypatch.delenv(other, raising=False)
    monkeypatch.setenv(name, value)
    assert torch.mlu._device_count_cndev() == count


def test_the_leftmost_visibility_variable_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CN_VISIBLE_DEVICES", "0")
    monkeypatch.setenv("MLU_VISIBLE_DEVICES", "0,1")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1,2")
    assert torch.mlu._device_count_cndev() == 1


def test_cards_can_be_named_by_uuid(monkeypatch: pytest.MonkeyPatch) -> None:
    uuids = torch.mlu._raw_device_uuid_cndev()
    assert uuids is not None and len(set(uuids)) == len(uuids)
    monkeypatch.setenv("CN_VISIBLE_DEVICES", f"{uuids[3]},{uuids[0]}")
    assert torch.mlu._device_count_cndev() == 2


def test_visible_devices_set_after_the_import_and_before_first_use_count() -> None:
    code = """
    import os, torch, torch_mlu
    os.environ["MLU_VISIBLE_DEVICES"] = "0,1"
    torch.zeros(1, device="mlu:1")
    try:
        torch.zeros(1, device="mlu:2")
    except RuntimeError as error:
        print("refused")
    os.environ["MLU_VISIBLE_DEVICES"] = "0,1,2,3"
    print(torch.mlu.device_count())
    """
    assert lines(code) == ["refused", "2"]


def test_properties_have_the_fields_of_the_real_ones_and_no_more() -> None:
    properties = torch.mlu.get_device_properties(0)
    assert type(properties).__name__ == "_MLUDeviceProperties"
    assert (properties.name, properties.major, properties.isa_version) == ("MLU590", 5, 592)
    assert properties.multi_processor_count == properties.cluster_count * properties.core_num_per_cluster
    assert repr(properties) == (
        f"_MLUDeviceProperties(name='MLU590', major=5, minor=0, total_memory={properties.total_memory >> 20}MB, "
        f"multi_processor_count={properties.multi_processor_count})"
    )
    for name in ("warp_size", "regs_per_multiprocessor", "gcnArchName", "uuid", "L2_cache_size"):
        assert not hasattr(properties, name)


def test_get_device_properties_needs_its_argument() -> None:
    with pytest.raises(TypeError):
        torch.mlu.get_device_properties()


def test_a_profile_changes_what_the_card_is() -> None:
    code = """
    import torch, torch_mlu
    print(torch.mlu.get_device_name(), torch.mlu.get_device_capability(), torch.mlu.is_bf16_supported())
    """
    assert lines(code, MLU_EMULATOR_PROFILE="mlu370") == ["MLU370 (3, 0) False"]
    assert (torch.mlu.is_bf16_supported(), torch.mlu.is_fp8_supported()) == (True, False)


def test_the_device_context_restores_the_card_it_found() -> None:
    before = torch.mlu.current_device()
    with torch.mlu.device(2):
        assert torch.mlu.current_device() == 2
        assert torch.zeros(1, device="mlu").device == torch.device("mlu", 2)
        with torch.mlu.device(torch.device("mlu:3")), torch.mlu.device(-1), torch.mlu.device(None):
            assert torch.mlu.current_device() == 3
        with torch.mlu.device_of(torch.zeros(1, device="mlu:1")), torch.mlu.device_of(torch.zeros(1)):
            assert torch.mlu.current_device() == 1
    assert torch.mlu.current_device() == before


def test_set_device_takes_every_spelling_and_ignores_a_negative_number() -> None:
    before = torch.mlu.current_device()
    try:
        for spelling in (1, "mlu:1", torch.device("mlu:1"), -1):
            torch.mlu.set_device(spelling)
            assert torch.mlu.current_device() == 1
    finally:
        torch.mlu.set_device(before)


def test_peers_reach_each_other() -> None:
    assert torch.mlu.can_device_access_peer(0, 1)
    assert not torch.mlu.can_device_access_peer(0, 0)


def test_generated_methods_move_and_tell() -> None:
    x = torch.ones(2)
    assert x.mlu().is_mlu and not x.is_mlu and x.mlu("mlu:1").device.index == 1
    assert torch.nn.Linear(1, 1).mlu().weight.is_mlu
    packed = torch.nn.utils.rnn.pack_sequence([torch.ones(2, 1)])
    assert packed.mlu().is_mlu and not packed.is_mlu


def test_cuda_stays_absent() -> None:
    assert not torch.cuda.is_available()
    with pytest.raises((AssertionError, RuntimeError)):
        torch.zeros(1, device="cuda")


def test_without_the_import_there_is_no_mlu() -> None:
    done = run("import torch; torch.zeros(1, device='mlu')", fresh=True)
    assert done.returncode == 1 and "mlu" in done.stderr and "RuntimeError" in done.stderr
    done = run("import torch; torch.mlu", fresh=True)
    assert "AttributeError: module 'torch' has no attribute 'mlu'" in done.stderr


def test_two_copies_of_a_submodule_exist_as_with_the_real_one() -> None:
    """One module under two names: ``from torch.mlu.amp import X`` loads a second copy (torch_mlu/__init__.py:61)."""
    code = """
    import torch, torch_mlu
    from torch_mlu.mlu.amp import GradScaler as First
    from torch.mlu.amp import GradScaler as Second
    print(torch.mlu is torch_mlu.mlu, First is Second, issubclass(Second, torch.amp.GradScaler))
    """
    assert lines(code) == ["True False True"]


def test_backends_are_modules_and_attributes_as_over_there() -> None:
    import torch.backends.mlu

    assert torch.backends.mlu is torch_mlu.backends.mlu
    for name in ("cnnl", "mlufusion"):
        assert hasattr(torch.backends, name)
        with pytest.raises(ModuleNotFoundError):
            __import__(f"torch.backends.{name}")


def test_switches_begin_with_the_real_defaults() -> None:
    code = """
    import torch, torch_mlu
    b = torch.backends
    print(b.cnnl.allow_tf32, b.mlu.matmul.allow_tf32, b.mlu.custom.allow_tf32, b.mlufusion.enabled)
    torch.set_float32_matmul_precision("high")
    print(b.mlu.matmul.allow_tf32, torch._C._get_cnmatmul_allow_tf32())
    b.mlu.matmul.allow_tf32 = False
    print(b.mlu.matmul.allow_tf32, torch.get_float32_matmul_precision())
    """
    assert lines(code) == ["True False False True", "True True", "False highest"]
    override = "import torch, torch_mlu; print(torch.backends.mlu.matmul.allow_tf32)"
    assert lines(override, TORCH_ALLOW_TF32_CUBLAS_OVERRIDE="1") == ["True"]
    assert "Invalid value for environment variable" in run(override, TORCH_ALLOW_TF32_CNMATMUL_OVERRIDE="maybe").stderr


def test_unknown_switches_raise_or_are_dead_as_over_there() -> None:
    for controller in (torch.backends.mlu.matmul, torch.backends.mlu.custom):
        with pytest.raises(AssertionError, match="Unknown attribute allow_fp16"):
            controller.allow_fp16 = True
        with pytest.raises(AssertionError, match="Unknown attribute other"):
            hasattr(controller, "other")
    with pytest.raises(RuntimeError):
        torch.backends.mlu.custom.allow_tf32 = 1
    with pytest.raises(AttributeError):
        torch.backends.cnnl.benchmark  # noqa: B018
    torch.backends.cnnl.benchmark = True
    assert torch.backends.cnnl.benchmark is True
    del torch.backends.cnnl.benchmark


def test_the_cuda_switches_only_warn() -> None:
    with pytest.warns(UserWarning, match="torch.backends.mlu.matmul.allow_tf32"):
        torch.backends.cuda.matmul.allow_tf32 = True
    assert torch.backends.mlu.matmul.allow_tf32 is False


def test_flags_hold_for_a_block() -> None:
    with torch.backends.cnnl.flags(allow_tf32=False):
        assert not torch.backends.cnnl.allow_tf32
    assert torch.backends.cnnl.allow_tf32
    with pytest.warns(UserWarning, match="benchmark"), torch.backends.cnnl.flags(benchmark=True):
        pass
    with torch.backends.mlufusion.flags():
        assert not torch.backends.mlufusion.enabled
    assert torch.backends.mlufusion.enabled


def test_attention_switches_hold_for_a_block() -> None:
    with pytest.warns(FutureWarning), torch.backends.mlu.sdp_kernel(enable_flash=False):
        assert not torch.backends.mlu.flash_sdp_enabled() and torch.backends.mlu.math_sdp_enabled()
    assert torch.backends.mlu.flash_sdp_enabled()
    assert not hasattr(torch.backends.mlu, "enable_cudnn_sdp")
    query = torch.randn(1, 2, 4, 8, device="mlu", dtype=torch.float16)
    wide = torch.randn(1, 2, 4, 512, device="mlu", dtype=torch.float16)
    assert torch.backends.mlu.can_use_flash_attention(
        torch.backends.mlu.SDPAParams(query, query, query, None, 0.0, False, False)
    )
    with pytest.warns(UserWarning, match="256"):
        assert not torch.backends.mlu.can_use_flash_attention(
            torch.backends.mlu.SDPAParams(wide, wide, wide, None, 0.0, False, False), debug=True
        )


def test_the_fft_plan_cache_has_a_size_for_each_card() -> None:
    cache = torch.backends.mlu.cnfft_plan_cache
    with pytest.raises(RuntimeError, match="read-only"):
        cache.size = 3
    cache[1].max_size = 7
    assert (cache[1].max_size, cache.size) == (7, 0)
    cache.clear()
    with pytest.raises(RuntimeError, match=r"cnfft_plan_cache: expected 0 <= device index < 8"):
        cache[8]


def test_ranges_nest_and_count_their_depth() -> None:
    cnpx = torch.mlu.cnpx
    assert (cnpx.range_push("a"), cnpx.range_push("b")) == (0, 1)
    assert (cnpx.range_pop(), cnpx.range_pop(), cnpx.range_pop()) == (1, 0, -1)
    handle = cnpx.range_start("c")
    cnpx.range_end(handle)
    cnpx.mark("now")
    with torch.autograd.profiler.profile() as prof, cnpx.range("step {}", 3):
        torch.ones(2)
    assert "step 3" in {event.name for event in prof.function_events}


def test_the_runtime_reports_no_error_and_names_one() -> None:
    runtime = torch.mlu.cnrt()
    torch.mlu.check_error(runtime.mluProfilerStart())
    torch.mlu.check_error(runtime.mluProfilerStop())
    with pytest.raises(torch.mlu.CnrtError, match=r"\(7\)"):
        torch.mlu.check_error(7)
    with torch.mlu.profiler.profile():
        torch.ones(1, device="mlu")
