"""`fedcell export`: the model of a recorded run as a file for other tools."""

from argparse import ArgumentParser, Namespace


def flags(sub: ArgumentParser) -> None:
    """The flags of `fedcell export`."""
    sub.add_argument("run", metavar="RUN", help="folder of one run")
    sub.add_argument(
        "--to",
        metavar="FILE",
        required=True,
        help="model.safetensors (weights by the names of the layers), model.pt2 (torch.export) or model.onnx",
    )
    sub.add_argument("--device-id", metavar="N", type=int, help="the model that this device keeps, if devices keep any")
    sub.set_defaults(command=export)


def export(args: Namespace) -> int:
    """Write the file and say how inputs must be scaled."""
    from ..record import read_all
    from ..record.home import export as write

    print(f"model: {write(args.run, args.to, device=args.device_id)}")
    if scaling := read_all(args.run)[0].scaling:
        print(f"inputs: scaled by data.scaling = {scaling['kind']}; its numbers are in the file, under fedcell")
    return 0
